"""Training the watermark's encoder and decoder, against what pictures go through.

``python -m mien.train.watermark --data DIR --out DIR --minutes 15`` trains, scores and exports.
"""
