"""The built-in checks; each file registers its checks when it is loaded."""
