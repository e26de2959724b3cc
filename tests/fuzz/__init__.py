"""A fuzzer: thousands of wrong commands, damaged files and kills, each case a function of its seed.

python -m tests.fuzz --cases 10000         (make fuzz)
python -m tests.fuzz --only yaml:1234      one case again, with all that it printed
"""
