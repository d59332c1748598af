#!/usr/bin/env python3
import json
import sys

import numpy as np

values = np.loadtxt(sys.argv[1])
slope, _ = np.polyfit(np.arange(values.size), values, 1)
far = np.flatnonzero(np.abs(values - values.mean()) > 2 * values.std())
# A product large enough that the linear algebra library starts its threads.
square = np.ones((200, 200)) @ np.ones((200, 200))
assert square[0, 0] == 200
print(
    json.dumps(
        {
            "count": int(values.size),
            "mean": round(float(values.mean()), 4),
            "deviation": round(float(values.std()), 4),
            "slope": round(float(slope), 4),
            "outliers": far.tolist(),
        }
    )
)
