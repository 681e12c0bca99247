"""What the lists of mounts that a process can read tell of the host."""

READ = "cat /proc/self/mounts; echo; cat /proc/self/mountinfo; echo; cat /proc/self/mountstats"


def telling(text, names, binds=()):
    """The lines of READ's output in which one of these names is. Of a bind mount the kernel shows which directory of its file system it is (the
    fourth field of mountinfo), so at the targets `binds` that field does not count."""
    found = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 9 and fields[0].isdigit() and fields[4] in binds:
            fields[3] = ""
        if any(name in " ".join(fields) for name in names):
            found.append(line)
    return found
