#!/bin/sh
curl -H "Authorization: Bearer glpat-sampleofatoken0123456789" https://example.org
