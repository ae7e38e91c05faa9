"""What a program says that rocrepro runs: phases, checks, and that it came to its end.

It is written beside the program of a case and imports nothing but Python's own modules. Without rocrepro, started by hand, it
prints what it finds. A check that is wrong does not end the program: it goes on, and every check is told.

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
    """The same as text that every reader of JSON takes: what a file name or a foreign text holds may be none."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, int):
        return value
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _line():
    """The line of the program that called."""
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
    """Names are parts of signatures: one word."""
    return "-".join(str(name).replace(":", " ").split()) or "check"


def _bad(kind, text, details=(), about="data"):
    return {"about": about, "class": _word(kind), "text": str(text), "details": [str(one) for one in details]}


def parameter(name, otherwise=None):
    """The trial's value of an axis of the matrix, as text."""
    value = os.environ.get("ROCREPRO_PARAMETER_" + name, otherwise)
    if value is None:
        raise KeyError("the matrix has no axis " + repr(name))
    return value


def phase(name):
    """Names what comes next; a crash or a hang gets this name."""
    _say(say="phase", name=_word(name))


def flat(values):
    """All values in one list: of an array, of nested lists, of a dictionary with its keys, of bytes, or a single one."""
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
    """How many values on each axis; of lists of different lengths, that of each."""
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
    """The same value; a NaN is the same as a NaN, and zeros of both signs are the same."""
    # Of megabytes that are wrong each is asked: nothing but a NaN differs from itself.
    if got == right or got == got or right == right:
        return got == right
    if isinstance(got, complex) or isinstance(right, complex):
        got, right = complex(got), complex(right)
        return agree(got.real, right.real) and agree(got.imag, right.imag)
    return _nan(got) and _nan(right)


def ulps(got, right, bits):
    """How many numbers of a floating-point type lie between two of them; infinite where only one is a NaN or infinite.

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
        # Numbers of one sign lie in the order of their bits.
        return number if number >= 0 else -(number & ((1 << (bits - 1)) - 1))

    if math.isinf(got) or math.isinf(right):
        return 0 if place(got) == place(right) else math.inf
    return abs(place(got) - place(right))


def classify(got, wrong, before=None, poison=None):
    """What the wrong values are: the word of the signature."""
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
    # Of megabytes that are the same nobody looks at each.
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
    # Values without gaps follow one index.
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
    """`got` must be the same as `right`. `before` is what was there before, `poison` a value that nobody computes."""
    return _compare(name, got, right, lambda a, b: not agree(a, b), before, poison)


def _bits(dtype):
    """The type whose numbers `ulp` counts."""
    if "bfloat16" in str(dtype):
        return "bfloat16"
    # Arrays of NumPy say what kind of number they hold, tensors of PyTorch whether it is a floating-point one.
    floating = getattr(dtype, "is_floating_point", getattr(dtype, "kind", "f") == "f")
    bits = 8 * getattr(dtype, "itemsize", 8)
    if not floating or bits not in (16, 32, 64):
        raise TypeError("`ulp` is for floating-point numbers of 16, 32 or 64 bits, and these are %s; give `bits`" % dtype)
    return bits


def close(name, got, right, ulp=None, bits=None, relative=0.0, absolute=0.0, before=None, poison=None):
    """`got` must be within `ulp` numbers of a type of so many `bits` (or "bfloat16") of `right`, or within relative * |right| + absolute."""
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
    """Two results must agree; nobody knows what is right."""
    return equal(name, one, other)


def holds(name, truth, text="it does not hold"):
    """Anything else that must be true: a truth value, not a list or a generator, which is true whatever it holds."""
    if type(truth).__name__ not in ("bool", "bool_"):
        raise TypeError("`holds` takes a truth value, and this is a " + type(truth).__name__)
    return _told(name, None if truth else _bad("false", text))


def status(name, got, right=0, word=str):
    """What a function answers; `word` gives the name of a status."""
    if got == right:
        return _told(name, None)
    text = "answers %s, expected %s" % (word(got), word(right))
    return _told(name, _bad(word(got), text, about="answer"))


def raises(name, exception, function, *arguments):
    """The function must raise an exception of this type."""
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
    """Exactly as much must be there after as before: free memory, handles."""
    text = "%s before, %s after" % (before, after)
    return _told(name, None if before == after else _bad("lost", text, about="leak"))


def must(status, what="HIP"):
    """For calls that the case is not about: any status but 0 ends the program."""
    if status != 0:
        raise RuntimeError("%s returns %s" % (what, status))


def told_of_fault():
    """A function told of a fault of the device, which the case is about: it counts neither for nor against the program."""
    _say(say="told_of_fault")


def _without_gpu():
    """The reason why PyTorch has no GPU here; None if it has one, or if the program does not use PyTorch."""
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
    """Ends the program: something that it needs is not there. If PyTorch has no GPU, says why."""
    _say(say="skip", why=_without_gpu() or why)
    sys.exit(0)


def done():
    """The last call of the program; without it the program has not come to its end."""
    _say(say="done", pid=os.getpid())
    if _FILE is None and _wrong:
        sys.exit(1)


def _place(frames):
    """The innermost place in a file that is neither Python's, nor a package's, nor this one."""
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
    """In a thread, or in a function that a library called."""
    kind = what.exc_type or Exception
    if not issubclass(kind, SystemExit):
        _uncaught(kind, what.exc_value, what.exc_traceback)


_say(say="begin", nonce=os.environ.get("ROCREPRO_NONCE", ""), runs_on="Python " + platform.python_version(), pid=os.getpid())
sys.excepthook = _uncaught
threading.excepthook = _uncaught_elsewhere
sys.unraisablehook = _uncaught_elsewhere
