"""The tools that are compared, one file each, with what its documentation has a person do.

A file has two halves. `decide(cell, measured)` gives the tool a script and a cap, and returns its answer; it runs
outside. `apply(answer)` does to a script what the answer says; it runs in the script's process before the script.
"""
