//! Calls of the libraries above HIP: random numbers and products.

use plan::{Call, Operands, RandKind, Step};

use crate::{
    calls::{BLAS, RAND, ROCBLAS},
    checks::number_fits,
    math,
    names::Kind,
    printer::Printer,
    support::Helper,
};

impl Printer<'_> {
    pub(crate) fn random(&mut self, step: &Step) {
        // The names of statuses take many lines.
        let other = self.lean.is_some_and(|lean| !lean.is_about(step));
        self.need(if other { Helper::NameRandNumber } else { Helper::NameRand });
        let generator = match &step.call {
            Call::RandCreate { generator, .. } => self.making(Kind::Generator, generator),
            Call::RandSeed { generator, .. }
            | Call::RandOffset { generator, .. }
            | Call::RandStream { generator, .. }
            | Call::RandGenerate { generator, .. }
            | Call::RandDestroy { generator } => self.name(Kind::Generator, generator),
            _ => return,
        };
        let call = match &step.call {
            Call::RandCreate { kind, host, .. } => {
                let kind = match kind {
                    RandKind::Xorwow => "HIPRAND_RNG_PSEUDO_XORWOW",
                    RandKind::Mrg32k3a => "HIPRAND_RNG_PSEUDO_MRG32K3A",
                    RandKind::Philox => "HIPRAND_RNG_PSEUDO_PHILOX4_32_10",
                };
                let function =
                    if *host { "hiprandCreateGeneratorHost" } else { "hiprandCreateGenerator" };
                format!("{function}(&{generator}, {kind})")
            }
            Call::RandSeed { seed, .. } => {
                format!("hiprandSetPseudoRandomGeneratorSeed({generator}, {seed})")
            }
            Call::RandOffset { offset, .. } => {
                format!("hiprandSetGeneratorOffset({generator}, {offset})")
            }
            Call::RandStream { stream, .. } => {
                let stream = self.stream(stream);
                format!("hiprandSetStream({generator}, {stream})")
            }
            Call::RandGenerate { to, count, .. } => {
                let to = self.place(to);
                format!(
                    "hiprandGenerate({generator}, reinterpret_cast<unsigned int*>({to}), {count})"
                )
            }
            _ => format!("hiprandDestroyGenerator({generator})"),
        };
        self.status(step, &call, RAND);
        if let Call::RandDestroy { generator: name } = &step.call {
            self.forget(Kind::Generator, &generator, name);
        }
    }

    pub(crate) fn product(&mut self, step: &Step) {
        match &step.call {
            Call::RocblasCreate { .. } | Call::RocblasDestroy { .. } => {
                self.need(Helper::NameRocblas);
            }
            Call::BlasltCreate { .. } | Call::BlasltDestroy { .. } => {
                self.need(Helper::NameBlaslt);
            }
            _ => {}
        }
        match &step.call {
            Call::BlasltCreate { handle } => {
                let handle = self.making(Kind::Blaslt, handle);
                self.status(step, &format!("hipblasLtCreate(&{handle})"), BLAS);
            }
            Call::BlasltDestroy { handle } => {
                let name = self.name(Kind::Blaslt, handle);
                self.status(step, &format!("hipblasLtDestroy({name})"), BLAS);
                self.forget(Kind::Blaslt, &name, handle);
            }
            Call::BlasltHeuristic { handle, problem } => {
                self.need(Helper::Heuristic);
                let handle = self.name(Kind::Blaslt, handle);
                let count = self.names.fresh(Kind::Value, "algorithms");
                self.line(format!("int {count} = 0;"));
                let call =
                    format!("matmul_heuristic({handle}, &{count}, {})", math::arguments(problem));
                let got = format!("std::to_string({count})");
                self.value(step, &call, BLAS, self.api(&step.call), &got, |wanted| {
                    number_fits(&count, wanted)
                });
            }
            Call::BlasltMatmul { handle, problem, operands, stream } => {
                self.need(Helper::BlasltMatmul);
                let (handle, stream) = (self.name(Kind::Blaslt, handle), self.stream(stream));
                let operands = self.operands(operands);
                let call =
                    format!("matmul({handle}, {stream}, {operands}, {})", math::arguments(problem));
                self.status(step, &call, BLAS);
            }
            Call::RocblasCreate { handle } => {
                let handle = self.making(Kind::Rocblas, handle);
                self.status(step, &format!("rocblas_create_handle(&{handle})"), ROCBLAS);
            }
            Call::RocblasDestroy { handle } => {
                let name = self.name(Kind::Rocblas, handle);
                self.status(step, &format!("rocblas_destroy_handle({name})"), ROCBLAS);
                self.forget(Kind::Rocblas, &name, handle);
            }
            Call::RocblasGemm { handle, problem, operands, stream } => {
                self.need(Helper::RocblasGemm);
                let (handle, stream) = (self.name(Kind::Rocblas, handle), self.stream(stream));
                let operands = self.operands(operands);
                let call = format!(
                    "gemm_ex({handle}, {stream}, {operands}, {})",
                    math::rocblas_arguments(problem)
                );
                self.status(step, &call, ROCBLAS);
            }
            _ => {}
        }
    }

    fn operands(&mut self, operands: &Operands) -> String {
        let names =
            [Some(&operands.a), Some(&operands.b), Some(&operands.d), operands.bias.as_ref()];
        let names: Vec<String> = names
            .into_iter()
            .map(|name| match name {
                Some(name) => self.name(Kind::Buffer, name),
                None => "nullptr".to_owned(),
            })
            .collect();
        names.join(", ")
    }
}
