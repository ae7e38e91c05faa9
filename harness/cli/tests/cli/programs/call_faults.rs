//! Tests faults at the functions that a C++ program calls, and compares the table of functions with the libraries.

use std::{collections::BTreeSet, fs, path::PathBuf};

use object::{Object, ObjectSymbol, SymbolKind};

use super::{case, rocrepro, run, shown, signature};

/// A program that calls functions with various parameters: arguments on the stack, floating-point values, a struct,
/// no argument, a kernel launch, and a function that the header renames.
const PROGRAM: &str = "\
title: Calls of a program
source: [this test]
needs: {with: dev}
program:
  cpp: |
    #include \"rocrepro.h\"
    using namespace rocrepro;
    __global__ void add(float *to, float a, double b, int c, float d, long e, long f, long g, long h) {
      *to = a + b + c + d + e + f + g + h;
    }
    int main() {
      phase(\"rows\");
      unsigned char *rows, got[8] = {}, wanted[8] = {1, 2, 3, 4, 5, 6, 7, 8};
      must(hipMalloc(&rows, 64));
      must(hipMemset(rows, 9, 64));
      must(hipMemcpy2D(rows, 16, wanted, 4, 4, 2, hipMemcpyHostToDevice));
      must(hipMemcpy2D(got, 4, rows, 16, 4, 2, hipMemcpyDeviceToHost));
      equal(\"rows\", std::vector<int>(got, got + 8), std::vector<int>(wanted, wanted + 8));
      phase(\"properties\");
      hipDeviceProp_t properties{};
      must(hipGetDeviceProperties(&properties, 0));
      holds(\"warp\", properties.warpSize > 0);
      phase(\"launch\");
      float *sum, result = 0;
      must(hipMalloc(&sum, 4));
      add<<<1, 1>>>(sum, 1.5f, 2.25, 3, 4.125f, 5, 6, 7, 8);
      must(hipGetLastError());
      must(hipMemcpy(&result, sum, 4, hipMemcpyDeviceToHost));
      equal(\"sum\", result, 36.875f);
      phase(\"priorities\");
      int least = 7, greatest = 7;
      status(\"one\", hipDeviceGetStreamPriorityRange(&least, &greatest));
      status(\"two\", hipDeviceGetStreamPriorityRange(&least, &greatest));
      status(\"three\", hipDeviceGetStreamPriorityRange(&least, &greatest));
      holds(\"written\", least != 7);
      return done();
    }
faults: [copy.zero]
";

/// The fault replaces the function that the program calls, and the device stays healthy.
#[test]
fn injects_call_faults_into_cpp_programs() {
    fetch("debian:7.2.4", &["--with", "dev"]);
    let wanted = [
        ("call.ignored,call=hipMemset", "pass"),
        (
            "call.refused,call=hipMemset,status=hipErrorNotSupported",
            "exception:hipErrorNotSupported",
        ),
        ("call.crash,call=hipMemset", "crash:rows"),
        ("call.hang,call=hipMemset", "hang:rows"),
        // The program never calls this function.
        ("call.crash,call=hipMallocManaged", "pass"),
        // The called function does its work with all arguments.
        ("call.leak,call=hipMemcpy2D", "pass"),
        ("call.leak,call=hipLaunchKernel", "pass"),
        ("call.ignored,call=hipLaunchKernel", "wrong-data:sum:*"),
        ("call.ignored,call=hipMemcpy2D", "wrong-data:rows:*"),
        (
            "call.refused,call=hipGetDeviceProperties,status=hipErrorContextIsDestroyed",
            "exception:hipErrorContextIsDestroyed",
        ),
        ("call.ignored,call=hipDeviceGetStreamPriorityRange", "wrong-data:written:false"),
        (
            "call.refused,call=hipDeviceGetStreamPriorityRange,status=hipErrorAssert,only=2",
            "api-error:two:*",
        ),
        (
            "call.refused,call=hipDeviceGetStreamPriorityRange,status=hipErrorAssert,only=3",
            "api-error:three:*",
        ),
    ];
    let (_folder, file) = case("calls", PROGRAM);
    for (fault, signature_wanted) in wanted {
        let (_, records) = run(&file, &["--fault", fault, "--quiet-timeout", "5"]);
        let got = signature(&records["calls"]);
        assert!(
            judge::signature_fits(signature_wanted, got),
            "{fault}: {}",
            records["calls"]["outcome"]
        );
    }
}

/// The function that selects calls in the worker also decides which of the program's three calls are refused.
#[test]
fn program_draws_the_calls_that_are_refused() {
    fetch("debian:7.2.4", &["--with", "dev"]);
    let (_folder, file) = case("calls", PROGRAM);
    for seed in 1..4 {
        let fault = format!(
            "call.refused,call=hipDeviceGetStreamPriorityRange,probability=0.5,seed={seed}"
        );
        let planted: device::FaultSpec = fault.parse().expect("a fault");
        let first =
            ["one", "two", "three"].iter().zip(0..).find(|(_, n)| planted.takes_effect_at(*n));
        let wanted = first.map_or("pass".to_owned(), |(name, _)| format!("api-error:{name}:*"));
        let (_, records) = run(&file, &["--fault", &fault]);
        let got = signature(&records["calls"]);
        assert!(judge::signature_fits(&wanted, got), "{fault}: {got}, not {wanted}");
    }
}

/// The time in the record of the program is at least the sum of the delays of its two slow calls.
#[test]
fn slow_call_delays_a_program() {
    fetch("debian:7.2.4", &["--with", "dev"]);
    let (_folder, file) = case("calls", PROGRAM);
    let (code, records) = run(&file, &["--fault", "call.slow,call=hipMemcpy2D,ms=300"]);
    assert_eq!(code, Some(0), "{records:?}");
    let took = records["calls"]["wall_ns"].as_u64().expect("a time");
    assert!(took >= 600_000_000, "{took} ns");
}

/// The time in the record of a case with steps is at least the sum of the delays of its two slow calls. With a fault at
/// a function that no step calls, the trial is skipped, and the skip names the reason.
#[test]
fn steps_have_slow_calls_and_no_functions_of_programs() {
    let text = "title: Two copies\nsource: [this test]\nbuffers:\n  a: {on: device, bytes: 64}\n  b: {on: host.pinned, bytes: 64, fill: pattern}\n\
        steps:\n  - copy: {to: a, from: b, api: memcpy}\n  - copy: {to: b, from: a, api: memcpy}\nexpect:\n  - check: b\n\
        faults: [copy.zero]\n";
    let (_folder, file) = case("copies", text);
    let (code, records) = run(&file, &["--fault", "call.slow,call=hipMemcpy,ms=700"]);
    assert_eq!(code, Some(0), "{records:?}");
    let took = records["copies"]["wall_ns"].as_u64().expect("a time");
    assert!(took >= 1_400_000_000, "{took} ns");
    let (_, records) = run(&file, &["--fault", "call.refused,call=hipSetDevice"]);
    assert_eq!(signature(&records["copies"]), "skip:needs");
    let text = records["copies"]["outcome"]["summary"].as_str().expect("a reason");
    assert!(text.contains("`call.refused` cannot be injected at `hipSetDevice`"), "{text}");
    assert!(text.contains("no step calls the function"), "{text}");
}

/// Returns the folder of a stack, which is fetched if it is missing.
pub(super) fn fetch(stack: &str, more: &[&str]) -> PathBuf {
    let fetched = rocrepro(&[&["stack", "fetch", stack], more].concat());
    assert!(fetched.status.success(), "{}", shown(&fetched));
    let store = stacks::StackCache::from_environment().expect("there is a cache");
    stacks::locate(&stack.parse().expect("a stack"), &store).expect("it is there").root
}

/// Every function that a release exports can be named by a fault. The tables have no other functions of libamdhip64.
#[test]
fn faults_can_name_every_exported_function() {
    let mut exported = BTreeSet::new();
    for (stack, library) in
        [("debian:5.2.3", 5), ("debian:5.7.1", 5), ("debian:6.4.3", 6), ("debian:7.2.4", 7)]
    {
        let root = fetch(stack, &[]);
        let library = root.join(format!("usr/lib/x86_64-linux-gnu/libamdhip64.so.{library}"));
        let bytes = fs::read(&library).expect("it is there");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let functions = file.dynamic_symbols();
        let functions =
            functions.filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text);
        let names = functions.filter_map(|symbol| symbol.name().ok());
        let names = names.map(|name| name.split('@').next().unwrap_or(name).to_owned());
        exported.extend(names.filter(|name| name.starts_with("hip")));
    }
    assert!(exported.len() > 500, "{}", exported.len());
    let named: BTreeSet<String> =
        device::Names::Functions.all().into_iter().map(str::to_owned).collect();
    let missing: Vec<_> = exported.difference(&named).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let of_others = ["hiprand", "hipblasLt", "rocblas_"];
    let surplus = named.difference(&exported);
    let surplus: Vec<_> =
        surplus.filter(|name| !of_others.iter().any(|prefix| name.starts_with(prefix))).collect();
    assert!(surplus.is_empty(), "{surplus:?}");
}
