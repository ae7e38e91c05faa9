//! The forms that upstream projects want issues in.

use std::{fmt, str::FromStr};

/// An upstream issue form.
///
/// Sources, read in November 2026: ROCm/.github and ROCm/rocm-libraries `issue_report.yml`, pytorch/pytorch `bug-report.yml` and
/// `pt2-bug-report.yml`, huggingface/accelerate `bug-report.yml`, triton-lang/triton `bug.yml`, each in `.github/ISSUE_TEMPLATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The ROCm organisation's form, also used by ROCm/rocm-systems, which has none of its own.
    Rocm,
    /// That of ROCm/rocm-libraries.
    RocmLibraries,
    /// PyTorch's for bugs.
    Pytorch,
    /// PyTorch's for bugs of `torch.compile`.
    PytorchPt2,
    /// Accelerate's.
    Accelerate,
    /// Triton's.
    Triton,
}

/// What stands under a heading of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Everything that does not have a heading of its own.
    Problem,
    OperatingSystem,
    Cpu,
    Gpu,
    /// Named where the form's list of GPUs ends.
    OtherGpu,
    RocmVersion,
    Component,
    Steps,
    Rocminfo,
    Additional,
    ErrorLogs,
    Versions,
    SystemInfo,
    Scripts,
    Tasks,
    Reproduction,
    Expected,
}

/// A field of a form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Its label, which GitHub makes a heading of the third level.
    pub(super) heading: &'static str,
    /// The id by which an address can fill it, where the form gives one.
    pub(super) id: Option<&'static str>,
    pub(super) content: Content,
}

const fn field(heading: &'static str, id: Option<&'static str>, content: Content) -> Field {
    Field { heading, id, content }
}

const ROCMINFO: &str = "(Optional for Linux users) Output of /opt/rocm/bin/rocminfo --support";

const ROCM: &[Field] = &[
    field("Problem Description", None, Content::Problem),
    field("Operating System", None, Content::OperatingSystem),
    field("CPU", None, Content::Cpu),
    field("GPU", None, Content::Gpu),
    field("ROCm Version", None, Content::RocmVersion),
    field("ROCm Component", None, Content::Component),
    field("Steps to Reproduce", None, Content::Steps),
    field(ROCMINFO, None, Content::Rocminfo),
    field("Additional Information", None, Content::Additional),
];

const ROCM_LIBRARIES: &[Field] = &[
    field("Problem Description", None, Content::Problem),
    field("Operating System", None, Content::OperatingSystem),
    field("CPU", None, Content::Cpu),
    field("GPU", None, Content::Gpu),
    field("Other", None, Content::OtherGpu),
    field("ROCm Version", Some("rocm_version"), Content::RocmVersion),
    field("ROCm Component", Some("rocm_component"), Content::Component),
    field("Steps to Reproduce", None, Content::Steps),
    field(ROCMINFO, None, Content::Rocminfo),
    field("Additional Information", None, Content::Additional),
];

const PYTORCH: &[Field] = &[
    field("🐛 Describe the bug", None, Content::Reproduction),
    field("Versions", None, Content::Versions),
];

const PYTORCH_PT2: &[Field] = &[
    field("🐛 Describe the bug", None, Content::Reproduction),
    field("Error logs", None, Content::ErrorLogs),
    field("Versions", None, Content::Versions),
];

const ACCELERATE: &[Field] = &[
    field("System Info", Some("system-info"), Content::SystemInfo),
    field("Information", Some("information-scripts-examples"), Content::Scripts),
    field("Tasks", Some("information-tasks"), Content::Tasks),
    field("Reproduction", Some("reproduction"), Content::Reproduction),
    field("Expected behavior", Some("expected-behavior"), Content::Expected),
];

const TRITON: &[Field] = &[
    field("Describe the bug", None, Content::Reproduction),
    field("Environment details", None, Content::Versions),
];

impl Form {
    /// Every form.
    pub const ALL: [Form; 6] = [
        Form::Rocm,
        Form::RocmLibraries,
        Form::Pytorch,
        Form::PytorchPt2,
        Form::Accelerate,
        Form::Triton,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Rocm => "rocm",
            Form::RocmLibraries => "rocm-libraries",
            Form::Pytorch => "pytorch",
            Form::PytorchPt2 => "pytorch-pt2",
            Form::Accelerate => "accelerate",
            Form::Triton => "triton",
        }
    }

    /// The form's file in its repository.
    pub(super) const fn template(self) -> &'static str {
        match self {
            Form::Rocm | Form::RocmLibraries => "issue_report.yml",
            Form::Pytorch | Form::Accelerate => "bug-report.yml",
            Form::PytorchPt2 => "pt2-bug-report.yml",
            Form::Triton => "bug.yml",
        }
    }

    /// What the form puts before every title.
    pub(super) const fn title_prefix(self) -> &'static str {
        match self {
            Form::Rocm | Form::RocmLibraries => "[Issue]: ",
            _ => "",
        }
    }

    /// The repository whose form it is; ROCm's own decides by component.
    pub(super) const fn repository(self) -> Option<&'static str> {
        match self {
            Form::Rocm => None,
            Form::RocmLibraries => Some("ROCm/rocm-libraries"),
            Form::Pytorch | Form::PytorchPt2 => Some("pytorch/pytorch"),
            Form::Accelerate => Some("huggingface/accelerate"),
            Form::Triton => Some("triton-lang/triton"),
        }
    }

    pub(super) const fn fields(self) -> &'static [Field] {
        match self {
            Form::Rocm => ROCM,
            Form::RocmLibraries => ROCM_LIBRARIES,
            Form::Pytorch => PYTORCH,
            Form::PytorchPt2 => PYTORCH_PT2,
            Form::Accelerate => ACCELERATE,
            Form::Triton => TRITON,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Form, String> {
        let found = Form::ALL.into_iter().find(|form| form.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = Form::ALL.iter().map(|form| form.name()).collect();
            format!("no form is called `{text}`; there are {}", names.join(", "))
        })
    }
}
