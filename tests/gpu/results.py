#!/usr/bin/env python3
"""results.py NOTES...: the notes of visits as one JSON. A line is a name, a tab and a value; several of one name are a list. A later file
replaces what an earlier one says under a name, so that parts which were run again count once."""

import json
import sys

results = {}
for path in sys.argv[1:]:
    of_file = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, tab, value = line.rstrip("\n").partition("\t")
            if tab:
                of_file.setdefault(name, []).append(" ".join(value.split()))
    results.update(of_file)
print(json.dumps({name: values[0] if len(values) == 1 else values for name, values in results.items()}, indent=2, ensure_ascii=False))
