"""HTTP routes, one file per resource. They parse requests, call the service and answer; nothing is computed here."""
