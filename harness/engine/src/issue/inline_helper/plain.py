# Plain versions of the functions of rocrepro.py, for programs that are printed in issues. An issue has those that its
# program uses: each part begins with `#: NAME`, and brings the parts that it mentions.
import math
import struct
import sys


# The checks of this program: each prints a line, and a wrong one makes it exit with status 1.
class rocrepro:
    #: failed
    failed = ""

    #: check
    def check(name, right, text):
        rocrepro.failed += "" if right else " " + str(name)
        print("%s: %s" % (name, "ok" if right else text), flush=True)
        return bool(right)

    #: parameter
    def parameter(name, otherwise=None):
        values = {}  # of the failing run
        return values.get(name, otherwise)

    #: phase
    def phase(name):
        print("phase:", name, flush=True)

    #: values
    def values(of, at=""):  # of an array, nested lists or a dictionary, each with its place
        of = of.tolist() if hasattr(of, "tolist") else of
        if isinstance(of, (str, int, float, complex)) or not hasattr(of, "__iter__"):
            return [(at, of)]
        items = sorted(of.items(), key=repr) if isinstance(of, dict) else enumerate(of)
        return [one for key, value in items for one in rocrepro.values(value, "%s[%r]" % (at, key))]

    #: compare
    def compare(name, got, expected, agree):
        got, expected = rocrepro.values(got), rocrepro.values(expected)
        if [at for at, _ in got] != [at for at, _ in expected]:
            return rocrepro.check(name, False, "%d values, expected %d in this shape" % (len(got), len(expected)))
        if all(value is None for _, value in expected):
            return rocrepro.check(name, False, "no values to compare")
        pairs = [(at, a, b) for (at, a), (_, b) in zip(got, expected) if a != b and not agree(a, b)]
        wrong = [(at, a, b) for at, a, b in pairs if a == a or b == b]  # a NaN equals a NaN
        text = wrong and "%d of %d wrong, got%s is %r, expected %r" % (len(wrong), len(got), *wrong[0])
        return rocrepro.check(name, not wrong, text)

    #: equal
    def equal(name, got, expected, before=None, poison=None):
        return rocrepro.compare(name, got, expected, lambda a, b: False)

    #: equal_flat
    def equal(name, got, expected, before=None, poison=None):
        wrong = [i for i in range(len(expected)) if got[i] != expected[i]]
        text = wrong and "%d of %d wrong, got[%d] is %r, expected %r" % (
            len(wrong), len(got), wrong[0], got[wrong[0]], expected[wrong[0]])
        return rocrepro.check(name, not wrong and len(got) == len(expected) > 0, text)

    #: equal_listed
    def equal(name, got, expected, before=None, poison=None):
        got, expected = [of.tolist() if hasattr(of, "tolist") else of for of in (got, expected)]
        wrong = [i for i in range(len(expected)) if got[i] != expected[i]]
        text = wrong and "%d of %d wrong, got[%d] is %r, expected %r" % (
            len(wrong), len(got), wrong[0], got[wrong[0]], expected[wrong[0]])
        return rocrepro.check(name, not wrong and len(got) == len(expected) > 0, text)

    #: close
    def close(name, got, expected, *, relative=0.0, absolute=0.0, before=None, poison=None):
        near = lambda a, b: abs(a - b) <= absolute + relative * abs(b) < float("inf")
        return rocrepro.compare(name, got, expected, near)

    #: close_by_ulp
    def close(name, got, expected, ulp=None, bits=None, relative=0.0, absolute=0.0, before=None, poison=None):
        if ulp is None:
            near = lambda a, b: abs(a - b) <= absolute + relative * abs(b) < float("inf")
        else:
            bits = bits or rocrepro.bits_of(getattr(got, "dtype", None))
            near = lambda a, b: rocrepro.ulps(a, b, bits) <= ulp
        return rocrepro.compare(name, got, expected, near)

    #: bits_of
    def bits_of(dtype):
        if "bfloat16" in str(dtype):
            return "bfloat16"
        floating = getattr(dtype, "is_floating_point", getattr(dtype, "kind", "f") == "f")
        bits = 8 * getattr(dtype, "itemsize", 8)
        if not floating or bits not in (16, 32, 64):
            raise TypeError("`ulp` is for floating-point numbers, and these are %s" % dtype)
        return bits

    #: ulps
    def ulps(got, expected, bits):
        """Returns how many floating-point numbers of so many bits lie between two."""
        if got != got or expected != expected:
            return 0 if got != got and expected != expected else math.inf
        if bits == "bfloat16":
            return rocrepro.ulps(got, expected, 32) / 65536
        code, whole = {16: ("<e", "<h"), 32: ("<f", "<i"), 64: ("<d", "<q")}[bits]

        def place(value):
            try:
                packed = struct.pack(code, value)
            except OverflowError:
                packed = struct.pack(code, math.copysign(math.inf, value))
            number = struct.unpack(whole, packed)[0]
            return number if number >= 0 else -(number & ((1 << (bits - 1)) - 1))

        if math.isinf(got) or math.isinf(expected):
            return 0 if place(got) == place(expected) else math.inf
        return abs(place(got) - place(expected))

    #: agree
    def agree(got, expected):
        return got == expected or (got != got and expected != expected)

    #: flat
    def flat(values):
        values = values.tolist() if hasattr(values, "tolist") else values
        if isinstance(values, dict):
            values = sorted(values.items(), key=lambda item: repr(item[0]))
        if isinstance(values, (str, int, float, complex)) or not hasattr(values, "__iter__"):
            return [values]
        return [one for value in values for one in rocrepro.flat(value)]

    #: shape
    def shape(values):
        if hasattr(values, "shape"):
            return tuple(values.shape)
        if isinstance(values, (list, tuple)):
            inner = [rocrepro.shape(value) for value in values]
            alike = all(one == inner[0] for one in inner)
            return (len(values),) + (() if not inner else inner[0] if alike else (tuple(inner),))
        return (len(values),) if hasattr(values, "__len__") else ()

    #: classify
    def classify(got, wrong, before=None, poison=None):
        values = [got[i] for i in wrong]
        if all(value != value for value in values):
            return "nan"
        if poison is not None and all(rocrepro.agree(value, poison) for value in values):
            return "poison"
        if before is not None and any(before[i] != 0 for i in wrong):
            if all(rocrepro.agree(got[i], before[i]) for i in wrong):
                return "stale"
        return "zero" if all(value == 0 for value in values) else "other"

    #: same
    def same(name, one, other):
        return rocrepro.compare(name, one, other, lambda a, b: False)

    #: holds
    def holds(name, truth, text="it does not hold"):
        if type(truth).__name__ not in ("bool", "bool_"):
            raise TypeError("`holds` takes a truth value, and this is a " + type(truth).__name__)
        return rocrepro.check(name, truth, text)

    #: status
    def status(name, got, expected=0, word=str):
        return rocrepro.check(name, got == expected, "returned %s, expected %s" % (word(got), word(expected)))

    #: raises
    def raises(name, exception, function, *arguments):
        try:
            function(*arguments)
        except exception:
            return rocrepro.check(name, True, "")
        except Exception as other:
            return rocrepro.check(name, False, "raised %r, expected %s" % (other, exception.__name__))
        return rocrepro.check(name, False, "raised nothing, expected %s" % exception.__name__)

    #: given_back
    def given_back(name, before, after):
        return rocrepro.check(name, before == after, "%s before, %s after" % (before, after))

    #: must
    def must(status, what="HIP"):
        if status != 0:
            raise RuntimeError("%s returns %s" % (what, status))

    #: told_of_fault
    def told_of_fault():
        print("a call reported the fault of the device", flush=True)

    #: skip
    def skip(why):
        print("skipped:", why, flush=True)
        sys.exit(0)

    #: done
    def done():
        print("FAILED:" + rocrepro.failed if rocrepro.failed else "all checks ok", flush=True)
        return rocrepro.failed and sys.exit(1)
