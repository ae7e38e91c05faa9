//! Prints calls to hipRAND, hipBLASLt and rocBLAS as C++.

use plan::{Call, Operands, RandKind, Step};

use crate::{
    calls::{BLAS, ROCBLAS},
    checks::number_fits,
    helpers::Helper,
    matrix_products,
    names::NameKind,
    printer::Printer,
};

impl Printer<'_> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    pub(crate) fn random(&mut self, step: &Step) {
        let success = self.success(step, self.api(&step.call));
        let call = match &step.call {
            Call::RandCreate { generator, kind, host } => {
                let kind = match kind {
                    RandKind::Xorwow => "HIPRAND_RNG_PSEUDO_XORWOW",
                    RandKind::Mrg32k3a => "HIPRAND_RNG_PSEUDO_MRG32K3A",
                    RandKind::Philox => "HIPRAND_RNG_PSEUDO_PHILOX4_32_10",
                };
                let function =
                    if *host { "hiprandCreateGeneratorHost" } else { "hiprandCreateGenerator" };
                let generator = self.declare_created(NameKind::Generator, generator);
                format!("{function}(&{generator}, {kind})")
            }
            Call::RandGenerate { generator, to, count } => {
                let generator = self.name(NameKind::Generator, generator);
                let to = self.place(to);
                format!(
                    "hiprandGenerate({generator}, reinterpret_cast<unsigned int*>({to}), {count})"
                )
            }
            _ => return self.unsupported_call(step),
        };
        self.status(step, &call, success);
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    pub(crate) fn product(&mut self, step: &Step) {
        match &step.call {
            Call::BlasltHeuristic { handle, problem } => {
                self.need(Helper::Heuristic);
                let handle = self.name(NameKind::Blaslt, handle);
                let count = self.names.fresh(NameKind::Value, "algorithms");
                self.line(format!("int {count} = 0;"));
                let call = format!(
                    "matmul_heuristic({handle}, &{count}, {})",
                    matrix_products::arguments(problem)
                );
                let got = format!("std::to_string({count})");
                self.value(step, &call, BLAS, self.api(&step.call), &got, |wanted| {
                    number_fits(&count, wanted)
                });
            }
            Call::BlasltMatmul { handle, problem, operands, stream } => {
                self.need(Helper::BlasltMatmul);
                let (handle, stream) = (self.name(NameKind::Blaslt, handle), self.stream(stream));
                let operands = self.operands(operands);
                let call = format!(
                    "matmul({handle}, {stream}, {operands}, {})",
                    matrix_products::arguments(problem)
                );
                self.status(step, &call, BLAS);
            }
            Call::RocblasGemm { handle, problem, operands, stream } => {
                self.need(Helper::RocblasGemm);
                let (handle, stream) = (self.name(NameKind::Rocblas, handle), self.stream(stream));
                let operands = self.operands(operands);
                let call = format!(
                    "gemm_ex({handle}, {stream}, {operands}, {})",
                    matrix_products::rocblas_arguments(problem)
                );
                self.status(step, &call, ROCBLAS);
            }
            _ => self.unsupported_call(step),
        }
    }

    fn operands(&mut self, operands: &Operands) -> String {
        let names =
            [Some(&operands.a), Some(&operands.b), Some(&operands.d), operands.bias.as_ref()];
        let names: Vec<String> = names
            .into_iter()
            .map(|name| match name {
                Some(name) => self.name(NameKind::Buffer, name),
                None => "nullptr".to_owned(),
            })
            .collect();
        names.join(", ")
    }
}
