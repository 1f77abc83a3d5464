"""The picture of the flow: what is seen, the graph that it makes, its layout, and the element that draws it.

seen     everything that the picture needs, of one moment (blocks)
graph    nodes and edges, and what hurts; pure
layout   columns and rows; pure
picture  the element in the browser (picture.js)
"""
