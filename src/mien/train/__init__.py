"""Training swap networks: packs of aligned faces, losses, the loop, and scores on the way.

Nothing here is needed to swap faces. The modules that run on a training machine need PyTorch,
NumPy, Pillow, and OpenCV or imagecodecs to decode WebP; the rest of mien is not loaded there.
"""
