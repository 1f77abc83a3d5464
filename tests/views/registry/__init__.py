"""Views over topics whose columns a registry knows."""
