"""subprocess, os.system, os.posix_spawn: starting programs from Python in every way."""

import os
import subprocess
import sys

print(subprocess.run(["echo", "a b"], capture_output=True, text=True).stdout)
print(subprocess.check_output("seq 5 | tac | head -2", shell=True))
p = subprocess.Popen([sys.executable, "-c", "import sys; print(sys.stdin.read()[::-1])"], stdin=-1, stdout=-1)
print(p.communicate(b"reversed"))
p = subprocess.Popen(["sleep", "60"], start_new_session=True)
p.terminate()
print(p.wait())
try:
    subprocess.run(["sleep", "60"], timeout=0.2)
except subprocess.TimeoutExpired:
    print("timeout")
for name in ("no-such-program", "/etc/passwd", "/usr"):
    try:
        subprocess.run([name])
    except OSError as e:
        print(name, e.errno, e.filename)
try:
    subprocess.run(["true"], cwd="/none")
except OSError as e:
    print(e.errno, e.filename)
print(subprocess.run(["sh", "-c", "kill -9 $$"]).returncode)
print(subprocess.run(["env"], env={"ONLY": "this"}, capture_output=True, text=True).stdout)
r, w = os.pipe()
subprocess.run(["sh", "-c", f"echo through >&{w}"], pass_fds=[w])
os.close(w)
print(os.read(r, 100))
print(os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ) > 0, os.waitstatus_to_exitcode(os.wait()[1]))
print(os.system("exit 5") >> 8, os.popen("echo popen").read())
ps = [subprocess.Popen(["sh", "-c", f"exit {i}"]) for i in range(20)]
print([p.wait() for p in ps])
