"""What a function compiled by reduce-overhead returned, read after the function ran again."""

import rocrepro
import torch

if not torch.cuda.is_available():
    rocrepro.skip("PyTorch %s sees no GPU; it must be a build for ROCm" % torch.__version__)

how = rocrepro.parameter("how")


def double(x):
    return torch.sin(x) * 2 + x


mode = "default" if how == "no-graphs" else "reduce-overhead"
compiled = torch.compile(double, mode=mode)
inputs = [torch.linspace(i, i + 1, 1000, device="cuda") for i in range(1, 9)]
rights = [double(x.double()).cpu() for x in inputs]
mark = torch.compiler.cudagraph_mark_step_begin

rocrepro.phase("warm-up")
for x in inputs[:4] if how not in ("kept", "mark-each") else ():
    if how.startswith("mark"):
        mark()
    compiled(x).clone()


def near(name, got, right):
    rocrepro.close(name, got.double().cpu(), right, relative=1e-5, absolute=1e-5)


def read(tensor):
    """The text of the exception, or nothing."""
    try:
        tensor.sum().item()
    except RuntimeError as error:
        return str(error)
    return None


rocrepro.phase("calls")
if how in ("kept", "mark-each"):
    seen = []
    before = None
    for number, x in enumerate(inputs):
        if how == "mark-each":
            mark()
        now = compiled(x)
        if before is not None:
            told = read(before)
            if told is not None:
                says = "overwritten by a subsequent run" in told
                rocrepro.holds("refusal %d says why" % number, says, told)
                seen.append("refused")
            else:
                values = before.double().cpu()
                holds = {"kept": rights[number - 1], "the next": rights[number]}
                near_to = [word for word, one in holds.items() if torch.allclose(values, one, atol=1e-4)]
                seen.append((near_to + ["other"])[0])
        near("output %d" % number, now, rights[number])
        before = now
    print("measured: the output of a call, read after the next one: " + ", ".join(seen))
    # While graphs are made it is refused; when they are replayed nobody looks, and it has the next result.
    rocrepro.holds("it is refused while graphs are made", "refused" in seen, str(seen))
    rocrepro.holds("and never its own again", set(seen) <= {"refused", "the next"}, str(seen))
elif how == "no-graphs":
    first, second = compiled(inputs[4]), compiled(inputs[5])
    near("the first", first, rights[4])
    near("the second", second, rights[5])
elif how == "clone":
    outputs = [compiled(x).clone() for x in inputs]
    for number, (got, right) in enumerate(zip(outputs, rights)):
        near("clone %d" % number, got, right)
else:
    # One mark for several calls: they are one step, and all outputs of a step live until the next mark.
    for step in range(3):
        mark()
        outputs = [compiled(x) for x in inputs[4:]]
        for number, (got, right) in enumerate(zip(outputs, rights[4:])):
            told = read(got)
            rocrepro.holds("output %d of step %d is readable" % (number, step), told is None, str(told))
            if told is None:
                near("output %d of step %d" % (number, step), got, right)
        del outputs, got
rocrepro.done()
