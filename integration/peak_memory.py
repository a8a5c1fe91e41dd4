"""Runs a program to its end and writes the most memory that it had resident, in bytes, into FOLDER/RANK."""

import os
import resource
import subprocess
import sys

code = subprocess.run(sys.argv[2:], check=False).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
with open(os.path.join(sys.argv[1], os.environ.get("RANK", "0")), "w", encoding="ascii") as file:
    file.write(str(peak))
sys.exit(code)
