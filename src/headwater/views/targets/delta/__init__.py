"""Views as Delta tables: rows and position change in one commit of its log."""
