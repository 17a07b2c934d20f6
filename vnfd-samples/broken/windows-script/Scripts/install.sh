#!/bin/sh
echo installed
