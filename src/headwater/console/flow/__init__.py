"""What the picture of the flow shows; `pages.flow` lays it out and draws it (picture.js).

seen     everything that the picture needs, of one moment (blocks)
graph    nodes and edges, and what hurts; pure
"""
