"""Functions by which a Python program reports its phases, its checks and its end to rocrepro.

rocrepro writes this file next to the program. It needs only Python's own modules. If rocrepro does not start the
program, the result of each check is printed. A failed check does not end the program, so that all are reported.

    import rocrepro
    rocrepro.phase("copy")
    rocrepro.equal("sum", got, right)
    rocrepro.done()
"""

import json
import math
import os
import platform
import struct
import sys
import threading
import traceback

_FILE = os.environ.get("ROCREPRO_REPORT")
_wrong = 0
_names = {}


def _say(**what):
    if _FILE is None:
        if what["say"] == "check":
            wrong = what["wrong"]
            print(what["name"] + ":", "right" if wrong is None else "WRONG: " + wrong["text"])
        return
    line = (json.dumps(_plain(what)) + "\n").encode()
    file = os.open(_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def _plain(value):
    """Returns the value with text that every JSON reader accepts; file names and foreign texts may contain other bytes."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, int):
        return value
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _line():
    """Returns the number of the line in the program from which the helper was called."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno


def _told(name, wrong):
    global _wrong
    _wrong += wrong is not None
    word = _word(name)
    if _names.setdefault(word, str(name)) != str(name):
        raise ValueError("the checks %r and %r have one name, `%s`" % (_names[word], str(name), word))
    _say(say="check", name=word, line=_line(), wrong=wrong)
    return wrong is None


def _word(name):
    """Returns a name as one word, because names are parts of signatures."""
    return "-".join(str(name).replace(":", " ").split()) or "check"


def _bad(kind, text, details=(), about="data"):
    return {"about": about, "class": _word(kind), "text": str(text), "details": [str(one) for one in details]}


def parameter(name, otherwise=None):
    """Returns the trial's value of a matrix axis, as text."""
    value = os.environ.get("ROCREPRO_PARAMETER_" + name, otherwise)
    if value is None:
        raise KeyError("the matrix has no axis " + repr(name))
    return value


def phase(name):
    """Names the next part of the program. A crash or hang in it is reported with this name."""
    _say(say="phase", name=_word(name))


def flat(values):
    """Returns all values in one list: those of an array, nested lists, a dictionary with its keys, bytes, or a single value."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, dict):
        values = sorted(values.items(), key=lambda item: repr(item[0]))
    if isinstance(values, (str, int, float, complex)) or not hasattr(values, "__iter__"):
        return [values]
    out = []
    for value in values:
        if isinstance(value, (int, float)):
            out.append(value)
        else:
            out.extend(flat(value))
    return out


def shape(values):
    """Returns the number of values along each axis; for lists of different lengths, the length of each."""
    if hasattr(values, "shape"):
        return tuple(values.shape)
    if isinstance(values, (list, tuple)):
        inner = [shape(value) for value in values]
        alike = all(one == inner[0] for one in inner)
        return (len(values),) + (() if not inner else inner[0] if alike else (tuple(inner),))
    try:
        return (len(values),)
    except TypeError:
        return ()


def _nan(value):
    return isinstance(value, (float, complex)) and value != value


def agree(got, right):
    """Returns true if two values are equal. Two NaNs are equal, and so are zeros of both signs."""
    # The quick way for megabytes of values: only a NaN differs from itself.
    if got == right or got == got or right == right:
        return got == right
    if isinstance(got, complex) or isinstance(right, complex):
        got, right = complex(got), complex(right)
        return agree(got.real, right.real) and agree(got.imag, right.imag)
    return _nan(got) and _nan(right)


def ulps(got, right, bits):
    """Returns how many numbers of a floating-point type lie between two; infinite if only one of them is NaN or infinite.

    The type has 16, 32 or 64 bits, or is "bfloat16", the upper half of 32."""
    if _nan(got) or _nan(right):
        return 0 if _nan(got) and _nan(right) else math.inf
    if bits == "bfloat16":
        return ulps(got, right, 32) / 65536
    code, whole = {16: ("<e", "<h"), 32: ("<f", "<i"), 64: ("<d", "<q")}[bits]

    def place(value):
        try:
            packed = struct.pack(code, value)
        except OverflowError:
            packed = struct.pack(code, math.copysign(math.inf, value))
        number = struct.unpack(whole, packed)[0]
        # Numbers of the same sign are ordered like their bits.
        return number if number >= 0 else -(number & ((1 << (bits - 1)) - 1))

    if math.isinf(got) or math.isinf(right):
        return 0 if place(got) == place(right) else math.inf
    return abs(place(got) - place(right))


def classify(got, wrong, before=None, poison=None):
    """Returns the word of the signature that describes the wrong values."""
    values = [got[i] for i in wrong]
    if all(_nan(value) for value in values):
        return "nan"
    if poison is not None and all(agree(value, poison) for value in values):
        return "poison"
    if before is not None and any(before[i] != 0 for i in wrong):
        if all(agree(got[i], before[i]) for i in wrong):
            return "stale"
    if all(value == 0 for value in values):
        return "zero"
    return "other"


def _compare(name, got, right, differs, before=None, poison=None):
    # Megabytes of equal bytes are compared at once, not one by one.
    if type(got) is bytes and type(right) is bytes and got and got == right:
        return _told(name, None)
    if shape(got) != shape(right):
        text = "its shape is %s, expected %s" % (shape(got), shape(right))
        return _told(name, _bad("shape", text))
    got, right = flat(got), flat(right)
    if len(got) != len(right):
        return _told(name, _bad("shape", "%d values, expected %d" % (len(got), len(right))))
    if all(value is None for value in right):
        return _told(name, _bad("nothing", "it compares nothing: there are no values"))
    wrong = [i for i, (a, b) in enumerate(zip(got, right)) if a != b and differs(a, b)]
    if not wrong:
        return _told(name, None)
    before = None if before is None else flat(before)
    lost = before is not None and len(before) != len(got)
    kind = classify(got, wrong, None if lost else before, poison)
    first = wrong[0]
    words = {"zero": ": all zero", "nan": ": all NaN", "stale": ": all as before", "poison": ": all poison"}
    text = "%d of %d wrong from element %d%s" % (len(wrong), len(got), first, words.get(kind, ""))
    some = wrong[:4]
    # Values without gaps are shown after the index of the first one.
    follow = some[-1] - first == len(some) - 1
    at = str(first) if follow else ", ".join(str(i) for i in some)
    details = [
        "  got at %s: %s" % (at, ", ".join(repr(got[i]) for i in some)),
        "right at %s: %s" % (at, ", ".join(repr(right[i]) for i in some)),
    ]
    if lost:
        details.append("`before` has %d values and says nothing of these %d" % (len(before), len(got)))
    return _told(name, _bad(kind, text, details))


def equal(name, got, right, before=None, poison=None):
    """Checks that `got` equals `right`. The previous content `before`, and `poison`, a value that no computation returns, help to classify wrong values."""
    return _compare(name, got, right, lambda a, b: not agree(a, b), before, poison)


def _bits(dtype):
    """Returns the floating-point type to which `ulp` refers."""
    if "bfloat16" in str(dtype):
        return "bfloat16"
    # The type of NumPy arrays has the field `kind`, and that of PyTorch tensors has `is_floating_point`.
    floating = getattr(dtype, "is_floating_point", getattr(dtype, "kind", "f") == "f")
    bits = 8 * getattr(dtype, "itemsize", 8)
    if not floating or bits not in (16, 32, 64):
        raise TypeError("`ulp` is for floating-point numbers of 16, 32 or 64 bits, and these are %s; give `bits`" % dtype)
    return bits


def close(name, got, right, ulp=None, bits=None, relative=0.0, absolute=0.0, before=None, poison=None):
    """Checks that `got` differs from `right` by at most `ulp` numbers of a type with this many `bits` (or "bfloat16"), or by at most relative * |right| + absolute."""
    if ulp is not None:
        bits = bits or _bits(getattr(got, "dtype", None))

        def differs(a, b):
            return ulps(a, b, bits) > ulp
    else:

        def differs(a, b):
            if _nan(a) or _nan(b):
                return not agree(a, b)
            if abs(b) == math.inf:
                return a != b
            return a != b and not abs(a - b) <= absolute + relative * abs(b)

    return _compare(name, got, right, differs, before, poison)


def same(name, one, other):
    """Checks that two results agree, for cases where the right result is unknown."""
    return equal(name, one, other)


def holds(name, truth, text="it does not hold"):
    """Checks any other condition. `truth` must be a truth value, because a list or a generator would be true regardless of its values."""
    if type(truth).__name__ not in ("bool", "bool_"):
        raise TypeError("`holds` takes a truth value, and this is a " + type(truth).__name__)
    return _told(name, None if truth else _bad("false", text))


def status(name, got, right=0, word=str):
    """Checks the status that a function returned; `word` converts a status to its name."""
    if got == right:
        return _told(name, None)
    text = "answers %s, expected %s" % (word(got), word(right))
    return _told(name, _bad(word(got), text, about="answer"))


def raises(name, exception, function, *arguments):
    """Checks that the function raises an exception of this type."""
    try:
        function(*arguments)
    except exception:
        return _told(name, None)
    except Exception as other:
        got = type(other).__name__
        text = "raises %s (%s), expected %s" % (got, other, exception.__name__)
        return _told(name, _bad(got, text, about="answer"))
    return _told(name, _bad("none", "raises nothing, expected %s" % exception.__name__, about="answer"))


def given_back(name, before, after):
    """Checks that an amount, for example of free memory or handles, is the same after as before."""
    text = "%s before, %s after" % (before, after)
    return _told(name, None if before == after else _bad("lost", text, about="leak"))


def must(status, what="HIP"):
    """Ends the program if the status is not 0. For calls that the case does not test."""
    if status != 0:
        raise RuntimeError("%s returns %s" % (what, status))


def told_of_fault():
    """Reports that a function returned the device error that the case tests. The error then counts neither as a failure nor as a pass."""
    _say(say="told_of_fault")


def _without_gpu():
    """Returns the reason why PyTorch has no GPU; None if it has one, or if the program does not use PyTorch."""
    torch = sys.modules.get("torch")
    try:
        if torch is None or torch.cuda.is_available():
            return None
        named = "torch %s in %s" % (torch.__version__, sys.prefix)
        if torch.version.hip is not None:
            return named + " is built for ROCm %s, and HIP sees no device" % torch.version.hip
        kind = "CPU" if torch.version.cuda is None else "CUDA"
        return named + " is a %s build (torch.version.hip is None)" % kind
    except AttributeError:
        return None


def skip(why):
    """Ends the program, because a prerequisite is missing. If PyTorch has no GPU, its reason replaces `why`."""
    _say(say="skip", why=_without_gpu() or why)
    sys.exit(0)


def done():
    """Must be the last call. Without it, the program is reported to have ended early."""
    _say(say="done", pid=os.getpid())
    if _FILE is None and _wrong:
        sys.exit(1)


def _place(frames):
    """Returns the innermost frame in a file that belongs to neither Python, a package, nor this helper."""
    installed = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ")
    own = [f for f in frames if f.filename != __file__ and not any(part in "/" + f.filename for part in installed)]
    if not (own or frames):
        return None
    place = (own or frames)[-1]
    return {"file": os.path.basename(place.filename), "line": place.lineno or 0, "function": place.name}


def _uncaught(kind, value, trace):
    main = os.path.abspath(getattr(sys.modules.get("__main__"), "__file__", "") or "")
    frames = traceback.extract_tb(trace)
    lines = [f.lineno for f in frames if os.path.abspath(f.filename) == main]
    text = " ".join(str(value).split())
    _say(say="exception", name=kind.__name__, text=text, line=lines[-1] if lines else 0, place=_place(frames))
    sys.__excepthook__(kind, value, trace)


def _uncaught_elsewhere(what):
    """Reports an exception in a thread, or in a function that a library called."""
    kind = what.exc_type or Exception
    if not issubclass(kind, SystemExit):
        _uncaught(kind, what.exc_value, what.exc_traceback)


_say(say="begin", nonce=os.environ.get("ROCREPRO_NONCE", ""), runs_on="Python " + platform.python_version(), pid=os.getpid())
sys.excepthook = _uncaught
threading.excepthook = _uncaught_elsewhere
sys.unraisablehook = _uncaught_elsewhere
