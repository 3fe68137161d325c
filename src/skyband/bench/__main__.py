"""`python -m skyband.bench [NAME …]`: all experiments, or those named."""

import sys

from skyband.bench import names, run

for name in sys.argv[1:] or names():
    print(f"== {name}: {names().get(name, '')}", flush=True)
    run(name)
    print(flush=True)
