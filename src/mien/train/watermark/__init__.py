"""Training the watermark's extractor, against what pictures go through.

``python -m mien.train.watermark --data DIR --out DIR --minutes 10`` trains, scores and exports.
"""
