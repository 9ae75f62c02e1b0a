"""The dream on a graph of stages: looking, walking and drawing at the same time, each with a state of its own.

``demo`` holds what the server asks for, ``building`` the graph, ``stages`` what runs in it; neither of these two is
imported before it is needed, and only then torch.
"""
