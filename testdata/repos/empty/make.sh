# Nothing committed yet.
new
