"""The systems that views live in: each in a folder of its own, behind one contract.

contract         what every target does; registry: which one a view's `to` means
sql              what the SQL stores share (names, statements, the book of positions)
places           where a view lives, as its store compares names
schema_fit       whether a table still fits its view
version_folders  versions of a view as folders (search, delta, files)
"""
