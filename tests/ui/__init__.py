"""The admin page in a browser."""
