"""The host protocol and its forms."""
