//! Describes the issue forms of upstream projects: their fields, headings and repositories.

use std::{fmt, str::FromStr};

/// An upstream issue form.
///
/// Sources, as of November 2026: ROCm/.github and ROCm/rocm-libraries `issue_report.yml`, pytorch/pytorch
/// `bug-report.yml` and `pt2-bug-report.yml`, huggingface/accelerate `bug-report.yml`, triton-lang/triton `bug.yml`,
/// each in `.github/ISSUE_TEMPLATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Form of the ROCm organisation. ROCm/rocm-systems has no form of its own and uses this one.
    Rocm,
    /// Form of ROCm/rocm-libraries.
    RocmLibraries,
    /// Form of PyTorch for bugs.
    Pytorch,
    /// Form of PyTorch for bugs of `torch.compile`.
    PytorchPt2,
    /// Form of Accelerate.
    Accelerate,
    /// Form of Triton.
    Triton,
}

/// Content with which rocrepro fills a field of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Description of the failure: where it occurs and where not, the expected and the actual behaviour, and the
    /// program.
    Problem,
    OperatingSystem,
    Cpu,
    Gpu,
    /// Name of the GPU if the form's list of GPUs does not contain it.
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

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Label of the field, which GitHub renders as a third-level heading.
    pub(super) heading: &'static str,
    /// Id with which a web address can prefill the field; `None` if the form does not define one.
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
    /// All forms that rocrepro can fill.
    pub const ALL: [Form; 6] = [
        Form::Rocm,
        Form::RocmLibraries,
        Form::Pytorch,
        Form::PytorchPt2,
        Form::Accelerate,
        Form::Triton,
    ];

    /// Returns the form's name on the command line.
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

    /// Returns the file name of the form in its repository.
    pub(super) const fn template(self) -> &'static str {
        match self {
            Form::Rocm | Form::RocmLibraries => "issue_report.yml",
            Form::Pytorch | Form::Accelerate => "bug-report.yml",
            Form::PytorchPt2 => "pt2-bug-report.yml",
            Form::Triton => "bug.yml",
        }
    }

    pub(super) const fn title_prefix(self) -> &'static str {
        match self {
            Form::Rocm | Form::RocmLibraries => "[Issue]: ",
            _ => "",
        }
    }

    /// Returns the repository in which an issue with this form is filed. `None` for ROCm's own form, because the
    /// repository then depends on the failing component.
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
            format!("unknown form `{text}`; the forms are {}", names.join(", "))
        })
    }
}
