"""Alert rules, their states, alerts, silences and backtests."""
