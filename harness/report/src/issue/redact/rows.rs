//! Tables of private and of harmless examples that were found by hand. Each example is tested alone, in JSON and in
//! Markdown.

use super::*;

/// Returns an identity whose names occur in the tables.
fn who() -> Identity {
    Identity {
        user: "bsmith".to_owned(),
        host: "node7.corp.example.com".to_owned(),
        folders: vec![("/work/people/bsmith2".to_owned(), "~".to_owned())],
        ..Identity::default()
    }
}

/// Examples of private text, one per line. The words between `«` and `»` must be replaced.
const PRIVATE: &str = r#"
-I«/work/people/bsmith2»/inc -L«/work/people/bsmith2»/lib
file://«/work/people/bsmith2»/x
/work«//people/./bsmith2»/x
see /work/people/«bsmith2».
/tmp/torchinductor_«bsmith»/ab/c.py
/tmp/triton_«bsmith»
job_«bsmith»_7
«BSMITH»
«NODE7» «node7»_gpu
«storage.corp.example.com»:12345:12346 [0] NCCL INFO
«node7»:12345:12346 [0] NCCL INFO
eth0:«10.1.2.3»<0>
inet addr:«10.1.2.3»  Bcast:«10.1.2.255»
tcp:«10.1.2.3»:80
rank0@«10.1.2.3»:29500
«bob»@«10.1.2.3»
«10.1.2.3»-«10.1.2.9»
node_«10.1.2.3»
inet6 addr:«fe80::1ff:fe23:4567:890a»
a «fd00::1» b
peer:«2001:db8::8a2e:370:7334»
net «2001:db8::» up
mac:«52:54:00:12:34:56»
hwaddr:«00:11:22:33:44:55»
link/infiniband «80:00:00:48:fe:80:00:00:00:00:00:00:50:6b:4b:03:00:12:34:56» brd
«gpu01.cluster»:12345:12346 [0] NCCL INFO Bootstrap
«box.local»:8080:tcp
«gpu01»:12345:12346 [0] NCCL INFO Bootstrap
sip:«bob@example.com»:5060
git clone «bob@git.example.com»:team/repo.git
to «bob@müller.de» and «böb@example.com»
"«bob smith»"@example.com
«bob@firma.rs», «bob@x.py», «bob@acme.so»
/Work/People/«BSmith2»/x
/scratch/users/«bob»/x
/global/homes/b/«bob»
/home/b/«bob»
/home/./«bob»
/home//«bob»
/home2/«bob»
sk-ssh-ed25519@openssh.com AAAA«GnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIHunt bob»
ssh-rsa-cert-v01@openssh.com AAAA«HHNzaC1yc2EtY2VydC12MDFAb3BlbnNzaC5jb20»
ssh-rsa  AAAA«B3NzaC1yc2EAAAADAQABAAABgQC7huntabcdefghijklmnop»
ssh-rsa	AAAA«B3NzaC1yc2EAAAADAQABAAABgQC7huntabcdefghijklmnop»
wandb_v1_«a1B2c3D4e5F6g7H8i9J0k1L2m3N4»
glsa_«a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6»
lsv2_pt_«a1B2c3D4e5F6g7H8i9J0k1L2m3N4»
PMAK-«123456789012345678901234-1234567890123456789012345678901234»
sq0atp-«abcdefghijk1mnopqrstuv»
shpss_«abcdef0123456789abcdef0123456789»
rubygems_«abcdef0123456789abcdef0123456789abcdef»
dckr_oat_«abcdefghijk1mnopqrstuvwxyz0»
pul-«abcdef0123456789abcdef0123456789»
xoxe.«xoxp-1-Mi0yLTEyMzQ1Njc4OTAxMjM»
«ABIAIOSFODNN7EXAMPLE» or «ACCAIOSFODNN7EXAMPLE»
key=x,ghp_«0123456789abcdefghij»,y
https://hooks.slack.com/services/«T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX»
https://discord.com/api/webhooks/«123456789012345678/abcDEF123ghi456JKL789mno-pqr»
http_proxy=«bob:hunter2»@proxy:3128
jwt eyJ«hbGciOiJIUzI1NiJ9.eyJodW50IjoxfQ».
`Linux «hunterbox» 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux`
'Linux «hunterbox» 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux'
(Linux «hunterbox» 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux)
Fri 2026-11-27 23:29:19 UTC «hunterbox» kernel: x
messages:Nov 27 23:29:19 «hunterbox» kernel: x
`Nov 27 23:29:19 «hunterbox» kernel: x`
2026-11-27T23:29:19.1Z «hunterbox» app: x
<30>Nov 27 23:29:19 «hunterbox» kernel: x
<34>1 2003-10-11T22:14:15.003Z «hunterbox» su - ID47 - x
«bob@hunterbox» ~ % ls
«bob@hunterbox» ~> ls
«hunterbox»:~ # ls
\u001b[01;32m«bob@hunterbox»\u001b[00m:\u001b[01;34m~\u001b[00m$ ls
hostname: «build-linux01»
hostname: «x86_64-node7x»
hostname: «7b»
hostname: «0xdeadbeef»
TOKEN=«$ABC123DEF»
secret: «${x}hunter2»
secret=«<a-b>hunter2»
password: «{{hunter2»
TOKEN=$'«hunter2»'
'password': b'«hunter2»'
password: «correct horse battery staple»
users: «hunter1, hunter2»
hosts: [«hunter1, hunter2»]
User Name:   «bob hunter»
accounts: «hunter1»
logins: «hunter1»
password1=«hunter2»
token[0]: «hunter2»
OPENAI_KEY=«hunter2»
WANDB_KEY=«hunter2»
DD_APP_KEY=«hunter2»
Ocp-Apim-Subscription-Key: «hunter2»
["--token","«hunter2»"]
see 'x': Cookie: a=«hunter1»; f(user='«hunter2»', n=1) 'y'
Host x  HostName «hunterbox»  User «bob»  IdentityFile ~/.ssh/id
sshpass -p «hunter2» ssh x
sshpass -p«hunter2» ssh x
mysqldump -h db -u root -p«hunter2» x
docker login -u «bob» -p «hunter2» x.org
podman login --verbose x.org -p '«hunter2»'
docker login x.org, mysql -u root -p«hunter1» x, docker login -p «hunter2» x.org
it has username: «hunter» and hostname: «hunterbox» in it
redis-cli -h x -a «hunter2» ping
wandb login --relogin «0123456789abcdef0123456789abcdef01234567»
ngrok config add-authtoken «2abcDEFghijk1mnop_345qrstuvwxyz»
https://api.telegram.org/bot«1234567890:AAabcdefghijklmnopqrstuvwxyz0123456»/x
ip=10.1.2.3::«10.1.2.4»:255.255.255.0:«hunterbox»:eno1:off
ip=[«fd00::1»]::::«hunterbox»:eno1
{"auths":{"x.org":{"auth":"«Ym9iOmh1bnRlcjI=»"}}}
_auth=«Ym9iOmh1bnRlcjI=»
{"private_key_id":"«0123456789abcdef»"}
x = "passphrase: «correct horse battery staple»", 1
<p>passphrase: «correct horse battery staple»</p>
<p>Serial Number: «hunter2»</p>
<p>«gpu01»:12345:12346 [0] NCCL INFO Bootstrap</p>
{"name":"password","value":"«hunter2»"}
account_id: «123456789012»
https://x.org/?k%65y=«hunter2»
https://x.org/?q=a;key=«hunter2»
<token>«hunter2»</token>
<password>  «hunter2 hunter3»  </password>
<credentials><login>«hunter1»</login><x>«hunter2»</x></credentials>
<user id="7"><name>«hunter1»</name></user>
<h:apiKey a="b" c='d'>«hunter2»</h:apiKey>
<token><![CDATA[«hunter2»]]></token>
<property name="token" value="«hunter2»"/>
<property name="token" value='«hunter "2"»'/>
<property value="«hunter2»" name="API_TOKEN" />
<property name="password">«hunter2»</property>
<entry key="db.password">«hunter2»</entry>
<add key="apiKey" value="«a;b hunter2»"/>
<config token="«a, b; hunter2»"/>
<config user='«bob hunter»' x="1"/>
<name>fs.secret</name><value>«hunter2»</value>
<dict><key>password</key> <string>«hunter2»</string></dict>
uid=0(root) gid=1000(«hunters») groups=1000(«hunters»),27(«sudoers»),44(video),5(«domain users»)
euid=1000(«hunter1») egid=1000(«hunters»)
"#;

/// Examples of harmless text, one per line. They must be kept, because bug reports need them.
const HARMLESS: &str = r#"
ROCm 10.1.0.0
version: 10.3.1.0
VBIOS version 113.1.2.3
kernel k.internal case a/x.local
build id 550e8400-e29b-41d4-a716-446655440000
host=7f0012340000
sk-learn-1.2.3-abcdefghijklmnop
./configure --host=x86_64-pc-linux-gnu
2026-11-27T23:29:19Z INFO app: ready
Linux kernel 6.8.0-45-generic is used
git@github.com:ROCm/rocm-systems.git
call <hipMalloc@plt> and dead::beef
hipMalloc@libamdhip64.so main@a.cpp
token: ${TOKEN}, $(cat file) and {{ secret }}
CACHE_KEY=abc
password: <secret>
gfx1151:sramecc+:xnack- 0000:03:00.0
std::vector<token> and std::map<user, host>
<host><os>linux</os></host>
<property name="stack" value="debian:7.2.4"/>
<property name="token" value="none"/>
<b>token</b> <value>x</value>
gid=44(video) groups=44(video),110(render)
f(0),12(x)
User programs run in user mode
auth: basic, auth=none, "auth": "oauth"
mkdir -p build-dir && docker run -p 8080:80 x
mysql -h db -p -u root
login failed after 12345678901234567890 tries
ip=dhcp and ip=1:2:3
"#;

#[test]
fn private_spellings_go_from_every_carrier() {
    let mut kept = Vec::new();
    for line in PRIVATE.lines().filter(|line| !line.is_empty()) {
        let values: Vec<&str> =
            line.split('«').skip(1).filter_map(|part| part.split('»').next()).collect();
        let text = line.replace(['«', '»'], "");
        let nested = serde_json::json!({ "text": serde_json::json!([text]).to_string() });
        let carriers = super::tests::carriers(&text).into_iter().chain([
            nested.to_string(),
            format!("| n | text |\n|---|---|\n| 1 | {} |\n", text.replace('|', "\\|")),
        ]);
        for carrier in carriers {
            let redacted = crate::issue::publish_file(&carrier, &who());
            for value in &values {
                if redacted.contains(value) {
                    kept.push(format!("{value}: {redacted}"));
                }
            }
        }
    }
    assert!(kept.is_empty(), "{} kept\n{}", kept.len(), kept.join("\n"));
}

#[test]
fn harmless_spellings_stay_in_every_carrier() {
    let mut changed = Vec::new();
    for line in HARMLESS.lines().filter(|line| !line.is_empty()) {
        let table = format!("| n | text |\n|---|---|\n| 1 | {line} |\n");
        for carrier in super::tests::carriers(line).into_iter().chain([table]) {
            let redacted = crate::issue::publish_file(&carrier, &who());
            let same = match serde_json::from_str::<serde_json::Value>(&carrier) {
                Ok(before) => {
                    serde_json::from_str::<serde_json::Value>(&redacted).unwrap() == before
                }
                Err(_) => redacted == carrier,
            };
            if !same {
                changed.push(redacted);
            }
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(crate::issue::publish_file(text, &who()), expected);
}

#[test]
fn keys_in_pem_go_in_each_layout() {
    let body = "MIIEowIBAAKCAQEAhunthunthunthunthunthunthunthunthunthunthunthunthu";
    check(&format!("a\n{body}\n{body}\n-----END RSA PRIVATE KEY-----\nb\n"), "a\n<secret>\nb\n");
    check(
        &format!("[0] -----BEGIN X-----\n[0] {body}\n[0] -----END X-----\nb\n"),
        "[0] <secret>\nb\n",
    );
    check(&format!("[0] -----BEGIN X-----\n[0] {body}\nb c\n"), "[0] <secret>\nb c\n");
    check(
        &format!("[\"-----BEGIN X-----\",\"{body}\",\"-----END X-----\",\"b\"]"),
        "[\n  \"<secret>\",\n  \"<secret>\",\n  \"<secret>\",\n  \"b\"\n]\n",
    );
    // The end of the block was cut off, and the last line of the key is short.
    for end in ["hu==", "hunt", ""] {
        let cut = format!("-----BEGIN X-----\n{body}\n{body}\n{end}\nb c\nd\n");
        check(&cut, "<secret>\nb c\nd\n");
    }
    check(&format!("-----BEGIN X-----\n{body}\nhu=="), "<secret>");
    check("-----BEGIN X-----\nhu==\n", "<secret>\n");
    check(
        &format!("[10] -----BEGIN X-----\n[10] {body}\n[9] hu==\n[9] b c\n"),
        "[10] <secret>\n[9] b c\n",
    );
    check(
        &format!("---- BEGIN SSH2 PUBLIC KEY ----\nComment: \"bob\"\n{body}\nhu==\n"),
        "<secret>\n",
    );
    // The beginning of the block was cut off.
    check(&format!("b c\n{body}\nhu==\n-----END X-----\nb\n"), "b c\n<secret>\nb\n");
    check("b c\nhu==\n-----END X-----\nb\n", "b c\n<secret>\nb\n");
    check(
        "---- BEGIN SSH2 PUBLIC KEY ----\nComment: \"bob\"\nAAAAB3\n---- END SSH2 PUBLIC KEY ----\n",
        "<secret>\n",
    );
}

#[test]
fn tables_are_recognized_in_each_layout() {
    for table in [
        "Name | Password\n-----|---------\na | hunter2\n",
        "| user | password\n| --- | ---\n| x | hunter2\n",
        "> | user | password |\n> | --- | --- |\n> | x | hunter2 |\n",
        "- | user | password |\n  | --- | --- |\n  | x | hunter2 |\n",
        "| a \\| b | password |\n| --- | --- |\n| x | hunter2 |\n",
        "| x | `a|b` | password |\n| --- | --- | --- |\n| 1 | 2 | hunter2 |\n",
        "| x | [Password](x) |\n| :-- | --: |\n| 1 | hunter2 |\n",
    ] {
        let redacted = crate::issue::publish_file(table, &who());
        assert!(!redacted.contains("hunter2"), "{redacted}");
        let rule = |text: &str| text.lines().nth(1).map(str::to_owned);
        assert_eq!(rule(&redacted), rule(table));
    }
}

#[test]
fn keys_of_private_objects_and_numbers_go() {
    check(
        "{\"users\":{\"bob\":{\"shell\":\"sh\"}}}\nx\n",
        "{\"users\":{\"<user>\":{\"shell\":\"sh\"}}}\nx\n",
    );
    check(
        "{\"login\":12345,\"account_id\":123456789012}\nx\n",
        "{\"account_id\":\"<user>\",\"login\":\"<user>\"}\nx\n",
    );
    let deep = format!("{}\"password\"{}", "[".repeat(130), "]".repeat(130));
    check(&deep, "\"<JSON nested too deeply>\"\n");
}

#[test]
fn names_in_records_stay() {
    let record = "{\"build_id\":\"550e8400-e29b-41d4-a716-446655440000\",\"case\":\"a/x.local\",\"kernel\":\"k.internal\"}\nx\n";
    check(record, record);
}

#[test]
fn values_of_options_go_from_all_texts() {
    let record = serde_json::json!({
        "asked": {"given": ["--env MYVAR=supersecretvalue\nline two", "--env HSA_XNACK=1", "--launcher /a/l.sh -A launchsecret99"]},
        "again": "rocrepro run a/p --env 'OTHER=a b c d'",
    });
    let who =
        Identity { values: crate::issue::private_values(record.to_string().as_bytes()), ..who() };
    let redacted = crate::issue::publish_file(&record.to_string(), &who);
    for value in ["supersecretvalue", "line two", "launchsecret99", "a b c d"] {
        assert!(!redacted.contains(value), "{redacted}");
        assert_eq!(redact(&format!("val {value}! up"), &who), "val <value>! up");
    }
    assert!(redacted.contains("HSA_XNACK=1"), "{redacted}");
    let junit =
        "<?xml version=\"1.0\"?>\n<a b=\"x\">--env &apos;MYVAR=supersecretvalue&apos; bsmith</a>\n";
    let expected = "<?xml version=\"1.0\"?>\n<a b=\"x\">--env \"MYVAR=$MYVAR\" &lt;user&gt;</a>\n";
    assert_eq!(crate::issue::publish_file(junit, &who), expected);
}

/// Returns the text of SECURITY.md.
fn page() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../SECURITY.md");
    std::fs::read_to_string(page).unwrap()
}

/// Returns the rows of the table in SECURITY.md whose columns have these names.
fn documented<const N: usize>(columns: &str) -> Vec<[String; N]> {
    let page = page();
    let table = page.split(columns).nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let row = row.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")).unwrap();
        let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), N, "{row}");
        std::array::from_fn(|n| cells[n].trim_matches('`').to_owned())
    })
    .collect()
}

#[test]
fn the_page_lists_the_patterns() {
    let patterns: Vec<_> = forms::FORMS.iter().map(|form| [form.name, form.word]).collect();
    let documented = documented("| pattern | becomes | example |");
    let listed: Vec<_> = documented.iter().map(|[name, word, _]| [&**name, &**word]).collect();
    assert_eq!(listed, patterns);
    for ([name, word, example], form) in documented.iter().zip(&forms::FORMS) {
        let redacted = form.replaced(example);
        assert!(redacted.is_some_and(|text| text.contains(word)), "{name}: {example}");
    }
}

#[test]
fn values_go_from_each_layout_on_the_page() {
    let documented = documented("| layout | example |");
    assert!(documented.len() > 10);
    for [layout, example] in documented {
        let example = example.replace("\\|", "|").replace("\\n", "\n");
        assert!(example.contains("hunter2"), "{layout}: {example}");
        let redacted = crate::issue::publish_file(&example, &who());
        assert!(!redacted.contains("hunter2"), "{layout}: {redacted}");
        // If the name of the value is replaced, no other pattern finds the value.
        for word in ["password", "user", "token", "Authorization", "sig", "Serial Number", "-u"] {
            if example.contains(word) {
                let harmless = example.replace(word, "size").replace("login", "size");
                let redacted = crate::issue::publish_file(&harmless, &who());
                assert!(redacted.contains("hunter2"), "{layout}: {redacted}");
            }
        }
    }
}

#[test]
fn the_page_lists_the_names_of_parameters() {
    let page = page();
    let list =
        page.split("in queries of addresses also").nth(1).unwrap().split('.').next().unwrap();
    let listed: Vec<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert_eq!(listed, names::QUERY);
}

#[test]
fn the_page_lists_the_kinds_of_names() {
    let page = page();
    let list = page.split("fields with a private name:").nth(1).unwrap().split('.').next().unwrap();
    let listed = list.replace(" and ", ", ");
    let listed: Vec<String> = listed.split(", ").map(|n| n.trim().replace('\n', "")).collect();
    assert!(listed.len() > 10, "{listed:?}");
    for name in listed {
        let name = name.replace("keys of services", "API keys");
        let redacted = redact(&format!("{name}: hunter2"), &who());
        assert!(!redacted.contains("hunter2"), "{redacted}");
    }
}
