//! The private values and where they are hidden.

use Channel::*;

/// A way in which a private value gets into rocrepro's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    /// Comment in the program of the user.
    Comment,
    /// Text between quotes in the program.
    String,
    Stdout,
    Stderr,
    /// Words of the program's command line.
    Argument,
    /// `--title` of a program.
    Title,
    /// `--never` of a program.
    Never,
    /// Folder in which the program and the case are.
    FolderName,
    /// Environment variable of the command.
    Variable,
    /// `--env` of a program.
    Env,
    /// `--env` of a case.
    CaseEnv,
    Launcher,
    CaseTitle,
    CaseAbout,
    CaseSource,
    CaseComment,
    KernelComment,
    /// Options of the compiler of a kernel.
    KernelOption,
    /// `environment:` of a case.
    CaseEnvironment,
    /// Field of a record of another machine: a JSON pointer, and the value.
    Record,
    /// Text in an evidence folder.
    Log,
    /// Line of JSON in an evidence folder.
    JsonLog,
    XmlLog,
    MarkdownLog,
    /// Name of a file in an evidence folder.
    FileName,
    /// File that is not text in an evidence folder.
    Binary,
}

impl Channel {
    /// Returns true if values of the channel get into reports of programs.
    pub(super) fn is_of_program(self) -> bool {
        self.is_of_both()
            || matches!(self, Comment | String | Stdout | Stderr | Argument | Title | Never | Env)
    }

    /// Returns true if values of the channel must be in records or in files that the test wrote. File names, and values
    /// that only the command reads, need not be there.
    pub(super) fn must_arrive(self) -> bool {
        !matches!(self, Variable | Never | FileName | Binary)
    }

    /// Returns true if values of the channel get into reports of programs and into outputs about cases.
    pub(super) fn is_of_both(self) -> bool {
        matches!(self, FolderName | Variable)
    }
}

/// A text with private values. `§` means a word that occurs in no other text and must not be published. A value between
/// `«` and `»` must not be published either. `{NAME}` means the value of the hidden variable.
pub(super) struct Hidden {
    pub(super) channel: Channel,
    pub(super) kind: &'static str,
    pub(super) text: &'static str,
    /// The reason why the value is published nevertheless; empty if it must be replaced.
    pub(super) stays: &'static str,
}

const fn hidden(channel: Channel, kind: &'static str, text: &'static str) -> Hidden {
    Hidden { channel, kind, text, stays: "" }
}

const fn stays(
    channel: Channel,
    kind: &'static str,
    text: &'static str,
    why: &'static str,
) -> Hidden {
    Hidden { channel, kind, text, stays: why }
}

pub(super) static HIDDEN: &[Hidden] = &[
    hidden(Variable, "login name", "USER=§"),
    stays(Variable, "login name", "LOGNAME=§", "SECURITY.md says so: it is in a text of a program"),
    hidden(Variable, "login name before sudo", "SUDO_USER=§"),
    hidden(Variable, "home folder", "HOME=/srv/people/§"),
    hidden(Variable, "folder of XDG", "XDG_DATA_HOME=/net/§/share"),
    hidden(Variable, "unknown variable of ROCm", "ROCM_CUSTOMER=§"),
    hidden(Variable, "unknown variable of HIP", "HIP_SITE=§"),
    hidden(Variable, "value of a known variable", "NCCL_SOCKET_IFNAME=§"),
    hidden(Variable, "path in a known variable", "MIOPEN_USER_DB_PATH=/data/customers/§/db"),
    hidden(Variable, "proxy", "HTTPS_PROXY=http://§:«pxq7vwkz»@proxy.example:3128"),
    hidden(Variable, "other variable", "MY_PROJECT=§"),
    hidden(FolderName, "folder of a project", "/§-project"),
    hidden(Comment, "path of a person", "see /srv/people/§/notes.txt"),
    hidden(Comment, "mail address", "by §@«mxkqv».example"),
    hidden(Comment, "internal host name", "runs on §.cluster"),
    hidden(Comment, "token of GitHub", "ghp_§0123456789abcdef"),
    hidden(Comment, "home folder of another person", "from /home/§/x"),
    hidden(Comment, "password", "password: §"),
    hidden(String, "path of a customer", "/opt/customers/§/model.bin"),
    hidden(String, "path of a project", "/scratch/§/run/data.csv"),
    hidden(String, "password in an address", "https://bob:§@example.com/x"),
    hidden(String, "IPv4 address", "«10.77.131.201»:8080"),
    hidden(
        String,
        "private key",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow§IBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    ),
    hidden(String, "token of Hugging Face", "hf_§0123456789"),
    hidden(Stdout, "path of a project", "writing /mnt/nas/§/out.bin"),
    hidden(Stdout, "token", "token: §"),
    hidden(Stdout, "path of a user", "loading /data/users/§/weights.pt"),
    hidden(Stderr, "bearer token", "Authorization: Bearer §12345"),
    hidden(Stdout, "IPv6 address", "connect to «2001:db8:77a1::9f3»"),
    hidden(Stdout, "MAC address", "ether «52:54:7b:9c:d1:e3»"),
    hidden(Stderr, "unknown variable of ROCm", "ROCM_LAB_NAME=§"),
    hidden(Stderr, "job host", "srun: error: §: task 0: Exited"),
    hidden(Stderr, "MPI host", "[§7:12345] *** Process received signal ***"),
    hidden(Stderr, "NCCL host", "§7:12345:12346 [0] NCCL INFO Bootstrap"),
    hidden(Stderr, "home folder", "cannot open /home/§/a.cfg"),
    hidden(Argument, "path of a customer", "--data /opt/customers/§/data.csv"),
    hidden(Argument, "password", "--password §"),
    hidden(Argument, "token", "--api-token=§"),
    hidden(Argument, "mail address", "--notify §@example.com"),
    hidden(Argument, "private host", "--server §.internal:9000"),
    hidden(Argument, "path of a person", "-o/work/§/out"),
    hidden(Env, "licence server", "LM_LICENSE_FILE=27000@§"),
    hidden(Env, "value of --env", "PROJECT_CODE=§"),
    hidden(Env, "value of --env with blanks", "BANNER=for § only"),
    hidden(Env, "path in --env", "ROCBLAS_TENSILE_LIBPATH=/srv/§/tensile"),
    hidden(Env, "unknown variable of HIP in --env", "HIP_TENANT=§"),
    hidden(CaseEnv, "licence server", "LICENCE_SERVER=27001@§.acme.example"),
    hidden(CaseEnv, "value of --env", "TEAM=§"),
    hidden(Launcher, "account", "ACCOUNT=§"),
    hidden(Launcher, "path", "LAUNCH_DIR=/srv/launch/§"),
    hidden(CaseTitle, "mail address", "Copies of §@example.org"),
    hidden(CaseTitle, "path of a project", "data of /projects/§/a.bin"),
    hidden(CaseAbout, "internal host name", "Found on §.lan"),
    hidden(CaseAbout, "path of a user", "with /data/users/§/b.bin"),
    hidden(CaseAbout, "password", "password=§"),
    hidden(CaseComment, "path of a person", "kept in /srv/people/§/cases"),
    hidden(CaseComment, "service token", "glpat-§01234567890"),
    hidden(KernelComment, "path of a customer", "from /opt/customers/§/kernel.hip"),
    hidden(KernelComment, "mail address", "§@example.net"),
    hidden(CaseEnvironment, "other variable", "MY_CASE_SITE: §"),
    hidden(CaseEnvironment, "unknown variable of ROCm", "HSA_CASE_SITE: §"),
    hidden(Record, "path of a stack", "/stack/root /srv/people/§/rocm"),
    hidden(Record, "unknown variable", "/environment/ROCM_FOREIGN \"§\""),
    hidden(
        Record,
        "launcher",
        "/asked/given [\"--launcher srun -A §\", \"--env SITE=«vqkzxjwy»\"]",
    ),
    hidden(
        Record,
        "output",
        "/stderr_tail \"hostname: §\\n/scratch/«zvqwkxpt»/a.hip:3: SITE is vqkzxjwy\"",
    ),
    hidden(
        Record,
        "command",
        "/again \"rocrepro run own --cases-from /home/§/own.yaml --env 'K=«wqxvkzjh»'\"",
    ),
    hidden(Record, "summary", "/outcome/summary \"cannot read /net/home/§/x.bin\""),
    hidden(Log, "serial number", "Serial Number: §77"),
    hidden(Log, "UUID", "disk «7f3c1a9e-44d2-4b1c-9a77-0d3e5f6a7b8c» is full"),
    hidden(Log, "id of a GPU", "GPU-«7a3c9f1e5d2b4c6a» is busy"),
    hidden(Log, "JSON Web Token", "eyJhbGciOiJIUzI1NiJ9.eyJz§IjoxfQ.c2ln"),
    hidden(Log, "id of an AWS key", "«AKIAQZ7RWLXV4TPN2KDM»"),
    hidden(Log, "SSH public key", "ssh-ed25519 AAAAC3Nz§C1lZDI1 a@b"),
    hidden(
        Log,
        "private key",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNza§\n-----END OPENSSH PRIVATE KEY-----",
    ),
    hidden(Log, "host in a kernel log", "Nov 27 21:21:21 § kernel: amdgpu: page fault"),
    hidden(Log, "host in uname", "Linux § 6.8.0-45-generic #45-Ubuntu SMP x86_64"),
    hidden(Log, "prompt", "«qvwjxkzp»@§:~$ ls"),
    hidden(Log, "netrc", "machine x login «kzqvjwxf» password §"),
    hidden(Log, "password of a proxy", "http_proxy=bob:§@proxy:3128"),
    hidden(Log, "option of curl", "curl -u bob:§ https://x.org"),
    hidden(Log, "signature in an address", "https://x.org/?n=1&sig=§"),
    hidden(Log, "group", "uid=1000(§) gid=1000(«jqxvzkwh») groups=1000(jqxvzkwh),44(video)"),
    hidden(Log, "webhook", "https://hooks.slack.com/services/T0/B0/§"),
    hidden(Log, "folder of a Windows user", r"C:\Users\§\x"),
    hidden(Log, "mailbox", "/var/mail/§"),
    hidden(Log, "variable with a private name", "export DB_PASSWORD=§"),
    hidden(Log, "path with blanks", "\"/srv/My § Project/a b.py\", line 3"),
    hidden(Log, "address with a login", "ssh://§@box/x"),
    hidden(JsonLog, "field", "{\"password\": \"§\"}"),
    hidden(JsonLog, "name and value", "{\"name\": \"token\", \"value\": \"§\"}"),
    hidden(JsonLog, "words of a command", "[\"--password\", \"§\"]"),
    hidden(JsonLog, "path", "{\"file\": \"/srv/§/x\", \"/home/«qzkvxwjp»/k\": 1}"),
    hidden(XmlLog, "element", "<token>§</token>"),
    hidden(XmlLog, "attribute", "<x hostname=\"§\" path=\"/srv/people/«xqvkzwjy»/a\"/>"),
    hidden(XmlLog, "output", "<system-out>by §@example.com</system-out>"),
    hidden(MarkdownLog, "row", "| password | § |"),
    hidden(MarkdownLog, "column", "| n | user |\n|---|---|\n| 1 | § |"),
    hidden(FileName, "mail address", "mail-to §@example.com.txt"),
    hidden(FileName, "host", "log of §.cluster"),
    hidden(FileName, "IPv4 address", "from «10.78.132.202».log"),
    hidden(FileName, "token", "ghp_§0123456789abcdef.txt"),
    hidden(Comment, "unknown variable of ROCm", "run with ROCM_LAB=§"),
    hidden(Comment, "variable with a private name", "export API_KEY=§"),
    hidden(Comment, "IPv4 address", "at «10.99.41.177»"),
    hidden(Comment, "UUID", "disk «1f3c1a9e-44d2-4b1c-9a77-0d3e5f6a7b8d»"),
    hidden(Comment, "remote login", "ssh «kqzjvxwy»@§ ls"),
    hidden(Comment, "login name", "by {USER}"),
    hidden(Comment, "licence server", "27000@§"),
    hidden(String, "unknown variable of HIP", "HIP_PLACE=§"),
    hidden(String, "home folder", "{HOME}/x/§"),
    hidden(String, "mail address", "§@example.com"),
    hidden(String, "internal host name", "§.internal"),
    hidden(String, "JSON Web Token", "eyJhbGciOiJIUzI1NiJ9.eyJz§IjoxfQ.c2ln"),
    hidden(String, "query of an address", "https://x.org/?n=1&token=§"),
    hidden(Stdout, "home folder", "in {HOME}/§"),
    hidden(Stdout, "login name", "job of {SUDO_USER}"),
    hidden(Stdout, "password in JSON", "{\"password\": \"§\"}"),
    hidden(Stderr, "login name", "by {USER} in job_{USER}_7"),
    hidden(Stderr, "value of --env", "key {PROJECT_CODE}, server {LM_LICENSE_FILE}, {BANNER}"),
    hidden(Stderr, "value of --env, percent-encoded", "https://x.org/?b={BANNER%}"),
    hidden(Stderr, "internal host name in colour", "\u{1b}[31m§.cluster\u{1b}[0m is down"),
    hidden(Stderr, "unknown variable of ROCm as a pair", "os.environ['ROCM_PAIR'] = '§'"),
    hidden(Stderr, "unknown variable of ROCm as words", "setenv(\"ROCM_SET\", \"§\", 1)"),
    hidden(Stderr, "path in an exception", "  File \"/net/projects/§/a.py\", line 3, in f"),
    hidden(Argument, "login", "--user §"),
    hidden(Argument, "JSON with a password", "'{\"password\": \"§\"}'"),
    hidden(Argument, "unknown variable of ROCm", "ROCM_WORD=§"),
    hidden(Argument, "remote path", "bob@§:/srv/x"),
    hidden(Argument, "home folder", "--home={HOME}/data"),
    hidden(Title, "mail address", "the model of §@example.com works"),
    hidden(Never, "path of a project", "/projects/§/x is missing"),
    hidden(Never, "host of a private network", "no §.intranet"),
    hidden(CaseTitle, "login name", "by {USER}"),
    hidden(CaseTitle, "licence server", "27000@§"),
    hidden(CaseAbout, "remote login", "ssh «vkqzjxwp»@§ ls"),
    hidden(CaseAbout, "user name in an address", "ssh://§@box/x"),
    hidden(CaseAbout, "user name at an IP address", "§@«10.66.7.188»"),
    hidden(CaseAbout, "password in an address", "https://bob:§@example.com/x"),
    hidden(CaseSource, "mail address", "mail of §@example.com"),
    hidden(CaseSource, "path of a person", "/srv/people/§/mail.txt"),
    hidden(CaseComment, "value of --env", "for {TEAM}"),
    hidden(KernelComment, "login name", "by {USER}"),
    hidden(KernelComment, "unknown variable of ROCm", "with ROCM_KERNEL=§"),
    hidden(KernelOption, "path of a project", "-I/srv/§/include"),
    hidden(
        Record,
        "details",
        "/outcome/details [\"open /mnt/nas/§/a\", \"by «kvxqzjwm»@example.com\"]",
    ),
    hidden(Record, "path of a library", "/stack/libraries/0/path /work/§/lib/libamdhip64.so.7"),
    hidden(Record, "device", "/device/name \"card of §.cluster\""),
    hidden(Record, "title", "/title \"Copies in /srv/§/x\""),
    hidden(Record, "stacks of threads", "/stacks [\"#0 f at /srv/§/a.c:1\"]"),
    hidden(Record, "unknown field", "/hostname \"§\""),
    hidden(Record, "environment", "/environment/MY_SITE \"§\""),
    hidden(Log, "value of a case's environment", "it printed {MY_CASE_SITE}"),
    hidden(Log, "values of another machine's environment", "it printed {/environment/MY_SITE}"),
    hidden(Log, "host in a journal", "Fri 2026-11-27 23:29:19 UTC § kernel: x"),
    hidden(Log, "host in a log with ISO time", "2026-11-27T23:29:19Z § app: x"),
    hidden(Log, "host in a log of RFC 5424", "<34>1 2026-11-27T23:29:19Z § su - ID47 - x"),
    hidden(Log, "prompt of a host", "§:~ # ls"),
    hidden(Log, "cloud host", "on «ip-10-131-77-203»"),
    hidden(Log, "lines below a name", "password:\n  §"),
    hidden(Log, "JSON of a command", "[\"--password\", \"§\"]"),
    hidden(Log, "cookie", "Set-Cookie: sid=§; Path=/"),
    hidden(Log, "login in colour", "\u{1b}[32m«wkqzjvxm»@§\u{1b}[0m:\u{1b}[34m~\u{1b}[0m$ ls"),
    hidden(XmlLog, "name and value", "<property name=\"token\" value=\"§\"/>"),
    hidden(XmlLog, "name and content", "<entry key=\"token\">§</entry>"),
    hidden(XmlLog, "comment", "<!-- by §@example.com -->"),
    hidden(XmlLog, "raw text", "<x><![CDATA[/srv/people/§/x]]></x>"),
    hidden(MarkdownLog, "escaped mail address", "by §&#64;example.com"),
    hidden(MarkdownLog, "password in code", "`--password §`"),
    hidden(FileName, "login", "job_{USER}_7"),
    hidden(FileName, "mail address with another ending", "§@example.com.log"),
    hidden(Binary, "password", "password=§"),
    hidden(Comment, "path between angle brackets", "include </srv/people/§/a.h>"),
    hidden(Stderr, "path behind a redirection", "python3 a.py >/srv/people/§/x.log"),
    hidden(Stderr, "mail address in a query", "https://x.org/?to=§%40example.com"),
    hidden(Stderr, "path in a list", "PYTHONPATH=/srv/§/lib:/usr/lib:/mnt/«kwqvzjxm»/lib"),
    hidden(Stderr, "path in an address", "file:///srv/people/§/x"),
    hidden(Stderr, "path in HTML", "<td>/srv/people/§/x</td>"),
    hidden(Argument, "password in an address", "--url=http://bob:§@box/x"),
    hidden(Argument, "licence server", "--licence 27000@§"),
    // These values are published, although a user may expect that they are replaced.
    stays(
        String,
        "login name in a text of a program",
        "greetings, {LOGNAME}",
        "SECURITY.md says so",
    ),
    stays(String, "relative path", "customers/§/a.bin", "SECURITY.md says so"),
    stays(Log, "free text", "the code is §", "neither a name nor a form"),
    stays(Log, "other variable", "MY_OTHER_SITE=§", "the name of the variable is not private"),
    stays(Log, "folder of the root", "in /§ now", "a path has two components"),
    stays(Log, "other path of Windows", r"D:\customers\§\x", "only folders of users"),
    stays(Log, "share of Windows", r"\\nas\§\x", "only folders of users"),
    stays(Log, "host with a public name", "https://git.§.com/x", "looks public"),
    stays(Log, "bucket", "s3://§/x", "addresses stay"),
    stays(Log, "owner of a repository", "git@github.com:§/x.git", "addresses stay"),
    stays(Log, "telephone number", "call «+49 221 5557788»", "no form"),
    stays(KernelOption, "macro", "-DOWNER=§", "no form"),
    stays(Log, "secret in a sentence", "my password is §", "no layout"),
    stays(
        Log,
        "unknown variable in YAML",
        "  HIP_YAML_SITE: §",
        "no layout: HSA_STATUS_ERROR: text",
    ),
    stays(Log, "blank in a path without quotes", "/srv/My §/x", "a path ends at a blank"),
    stays(Log, "unusual character in a path", "/srv/a&b/§/x", "a path ends at it"),
    stays(Log, "path behind a bracket", "[0]/srv/people/§/x", "it may continue a relative path"),
    stays(Log, "host in a sentence", "machine § is down", "no layout"),
    stays(Log, "login in ls -l", "-rw-r--r-- 1 § users 7 Nov 27 a.txt", "no layout"),
    stays(Log, "login in ps", "§ 12 0.0 0.1 python3", "no layout"),
    stays(Log, "mail address at a host", "to bob@§", "no domain"),
    stays(
        JsonLog,
        "path of a project that is relative",
        "{\"a\": \"customers/§/x\"}",
        "SECURITY.md says so",
    ),
];
