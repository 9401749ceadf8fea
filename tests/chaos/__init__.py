"""Real workers killed, frozen and cut off under full load, and a ledger that says whether every promise held.

`chaos_run.py` runs the seeded faults of `plan.py`; `verify.py` compares the ledger, the log and the rows afterwards.
"""
