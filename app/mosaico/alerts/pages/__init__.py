"""Pages of alerts: the inbox, one alert, incidents, alert rules and silences."""
