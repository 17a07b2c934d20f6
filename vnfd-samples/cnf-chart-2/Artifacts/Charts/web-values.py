# Prints the values of the chart (SOL001 V5.4.1, 6.3.4); the first argument is the URL of the request.
import json
import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1]) as request:
    given = json.load(request).get("additionalParams", {})
keys = {"greeting": "greeting", "verification_node": "verifyOn"}
print(json.dumps({keys[name]: value for name, value in given.items() if name in keys}))
