"""Which views can be read over HTTP, and how far they are; their rows are read by `pipelines.view_rows`.

catalogue   which views there are
positions   how far views are, and waiting for it
"""
