//! Tests the redaction with tables of private and of harmless examples.

use super::*;

fn who() -> Identity {
    Identity {
        user: "jane".to_owned(),
        host: "workhorse.example.org".to_owned(),
        folders: vec![
            ("/data/people/jane".to_owned(), "~".to_owned()),
            ("/data/people/jane/cache/".to_owned(), "$XDG_CACHE_HOME".to_owned()),
            ("/scratch/17".to_owned(), "$TMPDIR".to_owned()),
            (String::new(), "$XDG_DATA_HOME".to_owned()),
        ],
        serials: vec!["PCB021343-0094".to_owned(), "x".to_owned()],
        users: vec!["jdoe".to_owned()],
        values: vec!["s3cr3t-licence".to_owned()],
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(redact(text, &who()), expected);
}

#[test]
fn redacts_users_and_hosts() {
    check("jane@workhorse:~$ ls", "<user>@<host>:~$ ls");
    check("on workhorse.example.org now", "on <host> now");
    check("janet and workhorses stay", "janet and workhorses stay");
    check("serial PCB021343-0094, x", "serial <serial>, x");
    check("write to jane.doe@example.org.", "write to <mail>.");
}

#[test]
fn colours_and_a_byte_order_mark_hide_nothing() {
    check("\u{1b}[31m/srv/private/x.cc\u{1b}[0m: \u{1b}[K/data/people/jane", "<path>.cc: ~");
    check("\u{feff}/srv/private/x.cc", "<path>.cc");
    check("\u{1b}[1mjane@workhorse\u{1b}[0m:~$ ls", "<user>@<host>:~$ ls");
}

#[test]
fn redacts_names_below_a_domain_of_one_label() {
    let of = |host: &str| Identity { host: host.to_owned(), ..Identity::default() };
    assert_eq!(redact("GPU02.acmelab, acmelab", &of("gpu01.acmelab")), "<host>, acmelab");
    // Names with these endings may be files or products.
    assert_eq!(redact("main.py torch.rocm", &of("box.py")), "main.py torch.rocm");
    assert_eq!(redact("main.py torch.rocm", &of("box.rocm")), "main.py torch.rocm");
}

#[test]
fn redacts_home_folders() {
    check("/data/people/jane/rocm/lib", "~/rocm/lib");
    check("/data/people/jane", "~");
    check("/data/people/janet/x", "<path>");
    check("/data/people/jane/cache/rocm x", "$XDG_CACHE_HOME/rocm x");
    check("in /scratch/17/a, /scratch/170", "in $TMPDIR/a, <path>");
    check("\"/home/john.smith/venv/bin\" /Users/me", "\"~/<path>\" ~");
    check("/home/ /opt/rocm/home/", "/home/ /opt/rocm/home/");
}

#[test]
fn redacts_secrets_and_other_logins() {
    check("by jdoe, not jdoes", "by <user>, not jdoes");
    check("LM_LICENSE=s3cr3t-licence", "LM_LICENSE=<value>");
    check("password=hunter2 x", "password=<secret> x");
    check("\"api_token\": \"abc\", y", "\"api_token\": \"<secret>\", y");
    check("HF_TOKEN=hf_abc next", "HF_TOKEN=<secret> next");
    check("serial: AB12", "serial: <serial>");
    check("a ghp_0123456789abcdefghij in it", "a <secret> in it");
    check("https://jane:pw@example.com/x", "https://<secret>@example.com/x");
    check("1.2.3.4:8080 fe80::1", "<ip> <ip>");
    check("token: $TOKEN, tokens = 3", "token: $TOKEN, tokens = 3");
}

#[test]
fn keeps_the_name_root() {
    let root = Identity {
        user: "root".into(),
        folders: vec![("/root".into(), "~".into())],
        ..Identity::default()
    };
    assert_eq!(redact("root in /root/x on /rootfs", &root), "root in ~/<path> on /rootfs");
}

#[test]
fn redacts_addresses() {
    check("ether 00:1a:2B:3c:4d:5e up", "ether <mac> up");
    check("00-1a-2b-3c-4d-5e", "<mac>");
    check("inet 192.168.1.17/24", "inet <ip>/24");
    check("at 10.0.0.4:8080.", "at <ip>.");
    check("fe80::1ff:fe23:4567:890a%eth0", "<ip>");
    check("root=UUID=3e6be9de-8139-11d1-9106-a43f08d823a6", "root=UUID=<uuid>");
    check("Uuid: GPU-18f2a3b4c5d6e7f8", "Uuid: GPU-<uuid>");
}

#[test]
fn keeps_versions_build_ids_and_pci_addresses() {
    for text in [
        "libamdhip64.so.7.2.53211 build id 0123456789abcdef0123456789abcdef01234567",
        "amdgpu 0000:03:00.0: [gfxhub] page fault (src_id:0 ring:24 vmid:8)",
        "kernel 6.8.0-45-generic, firmware 4.3.2.1, driver 6.12.12",
        "std::vector<int> a::b gfx90a:sramecc+:xnack-",
        "127.0.0.1 ::1 2026-11-21T01:02:03Z",
        "copies/small-sizes[bytes=2,host=pageable]",
        ":1:rocdevice.cpp :2875: 12345 us: [pid:1 tid:0x7f] Callback: Queue",
        "",
    ] {
        check(text, text);
    }
}

/// Examples of private text, one per line. The words between `«` and `»` must be replaced.
const PRIVATE: &str = r#"
Authorization: Bearer «abcdef123456»
Authorization: Basic «dXNlcjpwYXNz»
curl -H 'Authorization: token «abcd-efgh»' https://example.com/x
X-Api-Key: «k-1-2-3»
Cookie: session=«abc»; id=«def»
Set-Cookie: sid=«xyzzy»; Path=/
it sent Bearer «abc123def456» twice
AIzaSy«D0123456789abcdefghijklmnopqrstuvw»
rocrepro --password «hunter2» --repeat 2
tool --api-key «k1k2k3» run
tool --token=«t0ken»
mysql --user «alice» --host «db-7»
curl -u «alice:pw» https://example.com/
password: «hunter2»
passwd = «hunter2»
the password: «hunter2», and more
Pwd=«a;b&c»
PGPASSWORD=«hunter2» psql
DB_PASS=«hunter2»
export AWS_SECRET_ACCESS_KEY=«wJalr/XUtnFEMI»
AWS_ACCESS_KEY_ID=«AKIAIOSFODNN7EXAMPLE»
SPRING.DATASOURCE.PASSWORD=«x1y2»
API key: «k1»
clientSecret: '«two words»'
passphrase="«correct horse»"
https://example.com/blob?sv=1&sig=«abc%3D»
https://example.com/x?signature=«abc»&n=2
https://example.com/x?X-Amz-Signature=«abc»&X-Amz-Credential=«AK»
https://example.com/x?X-Goog-Signature=«abc»&X-Goog-Credential=«AK»
https://example.com/x?n=1&key=«abc»
https://«jane:pw»@example.com/x
ssh://«alice»@box/x
"password":"«hunter2»"
"api_key":["«k1»","«k2»"]
{\"password\":\"«hunter2»\"}
machine x login «alice» password «hunter2»
  login «alice»
  password «hunter2»
Serial Number: «0123456789AB»
Serial No.: «X-1»
serial=«PCB0213»
ID_SERIAL_SHORT=«S3Z9NB0K»
SerialNumber: «0123AB»
Unique ID: «0x18f2a3b4c5d6e7f8»
machine-id: «0123456789abcdef0123456789abcdef»
Uuid: GPU-«8f2c3d4e-1a2b-4c5d-8e9f-0123456789ab»
GPU-«8f2c3d4e-1a2b-4c5d-8e9f-0123456789ab» is busy
GPU-«18f2a3b4c5d6e7f8»
disk_«3e6be9de-8139-11d1-9106-a43f08d823a6».img
ether «00:1a:2B:3c:4d:5e» up
ether «00-1a-2b-3c-4d-5e» up
mac «001a.2b3c.4d5e» up
USER=«alice»
SUDO_USER=«zed»
LOGNAME=«alice»
SLURM_JOB_USER=«alice»
user: «alice»
"user": "«alice»",
Login: «alice»
User name: «alice»
hostname: «gpu-box-3»
HOSTNAME=«gpu-box»
Static hostname: «gpu-box»
Node Name: «gpu-box»
SLURMD_NODENAME=«n17»
host=«gpu-box-3»
Hostname    «gpu-box-3»
Serial Number	«0123456789AB»
**Hostname:** «gpu-box-3»
`hostname`: `«gpu-box-3»`
Linux «gpu-box-3» 6.8.0-45-generic #45-Ubuntu SMP x86_64
Nov 27 21:21:21 «gpu-box-3» kernel: amdgpu: page fault
«alice@gpu-box-3»:~$ ls
ssh «alice@gpu-box-3» ls
«node17.cluster.local» is down
from «vault.internal»:8200
https://«git.acme.corp»/x
«nas.lan»
«ip-10-0-0-17»
«node9.example.org»
27000@«licences»
inet «192.168.1.17»/24
«fe80::1ff:fe23:4567:890a»
write to «jane.doe@example.org».
/data/users/«frank»/x
/data/home/«frank»
/export/home/«frank»/x
/mnt/nfs/users/«frank»
/home/«alice»/key
/Users/«alice»
C:\Users\«alice»\x
/scratch/«alice»/run
/var/mail/«alice»
/root/«»x
ghp_«0123456789abcdefghij»
glpat-«0123456789abcdefghij»
sk-«abc0123456789abcdefghij»
xoxb-«0123456789-abcdef»
hf_«AbCdEfGhIjKlMnOpQrSt»
eyJ«hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl»
ssh-ed25519 AAAA«C3NzaC1lZDI1NTE5AAAAIG alice@box»
"#;

/// Examples of harmless text, one per line. They must be kept, because bug reports need them.
const HARMLESS: &str = r#"
libamdhip64.so.7.2.53211 build id 0123456789abcdef0123456789abcdef01234567
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"digest":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
amdgpu 0000:03:00.0: [gfxhub] page fault (src_id:0 ring:24 vmid:8)
bdf 0000:c3:00.0
[Fri Nov 27 21:21:21 2026] amdgpu: page fault
stack: host: /opt/rocm
host  device  kernel
user    0m0.5s
kernel 6.8.0-45-generic, firmware 4.3.2.1, driver 6.12.12
rocm 7.2.4, HIP 7.2.53211-671d39c
ROCm/rocm-systems#10639
std::vector<int> a::b gfx90a:sramecc+:xnack-
gfx1100 gfx1151 gfx942
127.0.0.1 ::1 2026-11-21T01:02:03Z
copies/small-sizes[bytes=2,host=pageable]
rocrepro run 'copies/small-sizes[host=pinned,user=3]' --rocm debian:7.2.4
copies/odd[kind=a,host=whatever]
:1:rocdevice.cpp :2875: 12345 us: [pid:1 tid:0x7f] Callback: Queue
"signature":"wrong-data:dst.back:zero"
signature: wrong-data:dst.back:zero
signature=memory-fault:__amd_rocclr_fillBufferAligned
user space and kernel space
in user space: the page is not mapped
the user sees a signature
note to the user: please look at the log
for the host: memory is mapped
host read (line 17, iteration 2): 2 of 2 bytes wrong
host.pageable and host.pinned
host: {on: host.pinned, bytes: 64}
host: pageable
host=pinned
user: 0.5 s
real 1.2s, user 0.3s, sys 0.1s
host=0x7f1234560000
auto token = next_token();
auto host = allocate(n);
float *host = new float[n];
host += size;
host::copy(a, b);
token == other
unexpected token: '}'
max_token=512 --tokens
password: $PASSWORD
--token ${TOKEN}
--password <secret>
token: <token>
tokens = <n>
serial=1
AMD_SERIALIZE_COPY=3
AMD_SERIALIZE_KERNEL=3 HSA_XNACK=1
HIP_VISIBLE_DEVICES=0,1
hostcall buffer 0x7fffe000
serialised and unserialised kernels
pip install --user torch==2.9.0
systemctl --user start x
docker run --user 1000:1000 --device /dev/kfd
./configure --host=x86_64-pc-linux-gnu
opt -stop-after-pass=amdgpu-isel
_ZN4rocr4core7Runtime4LoadEv
Cijk_Ailk_Bljk_HHS_BH_MT64x64x16_SE_K1
hf_transformer_layers_forward
npm_config_registry_url
sk-learn
/opt/rocm/lib/libamdhip64.so.7
/opt/rocm/home/
/usr/include/users/list.h
/usr/src/main.hip:12:3: error: no member
/sys/class/kfd/kfd/topology/nodes/1
~/.local/lib/python3.12/site-packages
/rootfs and /boot
https://github.com/ROCm/rocm-systems/issues/10639
https://rocm.docs.amd.com/en/latest/?page=2&n=3
card 0123456789ab
00 00 0c e1 7f
1002:744c rev c8
2026.1234.5678
at 0x7ffd1234abcd in hipMemcpy (libamdhip64.so+0x1234)
GPU-0 and GPU-1
3 of 4 passed
16.0 GT/s x16
GLIBC_2.2.5 memcpy@GLIBC_2.14
case: copies/plain
key: value
"trial":"copies/plain[n=1]"
PWD=/opt/rocm
std::unordered_map<int, float> code=3
return code: 139
exit code=1
pass=3
| signature | wrong-data |
| case | copies/plain |
"#;

/// Returns an example in three forms: unchanged, in a line of JSON, and in Markdown.
pub(super) fn carriers(text: &str) -> [String; 3] {
    let json = serde_json::json!({"format": 1, "stderr_tail": text, text: ["x", {"deep": [text]}]});
    [
        text.to_owned(),
        json.to_string(),
        format!("# Report\n\n* `a` and **b**\n\n```text\n{text}\n```\n\n- {text}\n"),
    ]
}

#[test]
fn private_texts_go_from_every_carrier() {
    let mut kept = Vec::new();
    let lines: Vec<&str> = PRIVATE.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines.len() >= 60);
    for line in lines {
        let secrets: Vec<&str> =
            line.split('«').skip(1).filter_map(|part| part.split('»').next()).collect();
        for carrier in carriers(&line.replace(['«', '»'], "")) {
            let redacted = crate::issue::publish_file(&carrier, &who());
            for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
                let escaped = secret.replace('\\', "\\\\");
                if redacted.contains(secret) || redacted.contains(&escaped) {
                    kept.push(format!("{secret}: {redacted}"));
                }
            }
            assert!(!redacted.contains("/root/"), "{redacted}");
        }
    }
    assert!(kept.is_empty(), "{}", kept.join("\n"));
}

#[test]
fn harmless_texts_stay_in_every_carrier() {
    let mut changed = Vec::new();
    let lines: Vec<&str> = HARMLESS.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines.len() >= 60);
    for line in lines {
        for (n, carrier) in carriers(line).into_iter().enumerate() {
            let redacted = crate::issue::publish_file(&carrier, &who());
            let same = match n {
                1 => {
                    serde_json::from_str::<serde_json::Value>(&redacted).unwrap()
                        == serde_json::from_str::<serde_json::Value>(&carrier).unwrap()
                }
                _ => redacted == carrier,
            };
            if !same {
                changed.push(redacted);
            }
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn pem_blocks_become_one_word() {
    let body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW";
    let block = format!(
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\nshort==\n-----END OPENSSH PRIVATE KEY-----"
    );
    check(&format!("a\n{block}\nb\n"), "a\n<secret>\nb\n");
    check(&block.replace('\n', "\\n"), "<secret>");
    // The end of the block was cut off.
    check(
        &format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n{body}\nthe next line"),
        "<secret>\nthe next line",
    );
    check("-----BEGIN X-----", "<secret>");
}

#[test]
fn values_below_a_name_are_redacted() {
    check("api_keys:\n  - k1\n  - k2\nn: 1\n", "api_keys:\n  - <secret>\n  - <secret>\nn: 1\n");
    check("password: |\n  hunter2\nn: 1", "password: |\n  <secret>\nn: 1");
    check(
        "| user | n |\n|---|---|\n| alice | 2 |\n\n",
        "| user | n |\n|---|---|\n| <user> | 2 |\n\n",
    );
    check("| | |\n|---|---|\n| Hostname | gpu-box |", "| | |\n|---|---|\n| Hostname | <host> |");
}

#[test]
fn redacted_texts_stay_the_same() {
    for line in PRIVATE.lines().chain(HARMLESS.lines()) {
        let once = redact(&line.replace(['«', '»'], ""), &who());
        assert_eq!(redact(&once, &who()), once);
    }
}

#[test]
fn long_lines_stay_the_same_once_redacted() {
    for part in [
        " ",
        ": ",
        "host: a ",
        "host=pinned ",
        "password=x,",
        "-----BEGIN ",
        "//a@",
        "/home/",
        "earer ",
        "a@b ",
        "/a",
        "0-",
        "--user ",
        "login ",
        "token:[",
        "[a=",
        "Cookie: ",
        "\\\"",
        "|user",
        "<token>",
        "<token a=\"b\">x</a>",
        "<name>token</name>",
        "<user ",
        "),1(",
        "groups=1(a),",
        "https://",
    ] {
        let once = redact(&part.repeat(5_000), &who());
        assert!(redact(&once, &who()) == once, "{part}");
    }
}
