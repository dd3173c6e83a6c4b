"""Training the occlusion network on faces with drawn things before them.

``python -m mien.train.occlusion --data DIR --nets DIR --out DIR --minutes 4`` trains and scores;
what is drawn, and what counts as before the face, is in ``scene`` and the modules it names.
"""
