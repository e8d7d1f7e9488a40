"""HTTP layers shared by all routes: request bodies, headers, ETags, events, health, metrics."""
