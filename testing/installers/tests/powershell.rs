//! The PowerShell scripts parse, and call what Windows PowerShell 5.1 has.

use installers::Script;

const INSTALL: &[u8] = include_bytes!("../../../install/install.ps1");
const ON_HARDWARE: &[u8] = include_bytes!("../../windows/on-hardware.ps1");

/// What these scripts may call: parts of Windows PowerShell 5.1 and of Windows 11. A misspelt name is in no list.
const KNOWN: [&str; 36] = [
    "Copy-Item",
    "ForEach-Object",
    "Get-ChildItem",
    "Get-ItemProperty",
    "Get-NetFirewallRule",
    "Get-Process",
    "Get-ScheduledTask",
    "Join-Path",
    "New-Item",
    "New-Object",
    "New-ScheduledTaskAction",
    "New-ScheduledTaskPrincipal",
    "New-ScheduledTaskSettingsSet",
    "New-ScheduledTaskTrigger",
    "Out-Null",
    "Out-String",
    "Register-ScheduledTask",
    "Remove-Item",
    "Select-Object",
    "Set-Content",
    "Set-StrictMode",
    "Stop-ScheduledTask",
    "Test-Path",
    "Unregister-ScheduledTask",
    "Write-Output",
    "ConvertFrom-Json",
    "ConvertTo-Json",
    "Get-CimInstance",
    "Get-Date",
    "Get-FileHash",
    "Measure-Command",
    "Start-Sleep",
    "Add-Content",
    "Get-Content",
    "Resolve-Path",
    "Sort-Object",
];

fn calls(script: &[u8]) -> Vec<String> {
    let script = Script::parse(script);
    let own = script.names("function_name");
    script.names("command_name").into_iter().filter(|name| !own.contains(name)).collect()
}

#[test]
fn the_scripts_parse() {
    for (name, text) in [("install.ps1", INSTALL), ("on-hardware.ps1", ON_HARDWARE)] {
        let mistakes = Script::parse(text).mistakes();
        assert!(mistakes.is_empty(), "{name}: {mistakes:#?}");
        // Windows PowerShell 5.1 reads a file without a byte-order mark in the machine's own code page.
        assert!(text.is_ascii(), "{name} has more than ASCII");
    }
}

#[test]
fn mistakes_are_found() {
    let good = String::from_utf8(INSTALL.to_vec()).unwrap();
    for (from, to) in [
        ("function Assert-Elevated {", "function Assert-Elevated"),
        ("if ($Service) {", "if ($Service {"),
        ("    throw \"there is no program", "    throw \"\"there is no program"),
        ("foreach ($line in $remains)", "foreach ($line of $remains)"),
        ("$lines = @(&", "$lines = @((&"),
        ("-f $DataDirectory.TrimEnd('\\')", "-f $DataDirectory.TrimEnd('\\'"),
    ] {
        assert!(good.contains(from), "{from}");
        let bad = good.replacen(from, to, 1);
        assert!(!Script::parse(bad.as_bytes()).mistakes().is_empty(), "{to}: not found");
    }
}

#[test]
fn every_command_is_one_that_windows_has() {
    for (name, text) in [("install.ps1", INSTALL), ("on-hardware.ps1", ON_HARDWARE)] {
        let calls = calls(text);
        assert!(calls.len() > 5, "{name}: {calls:?}");
        let unknown: Vec<_> = calls.iter().filter(|call| !KNOWN.contains(&call.as_str())).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
    assert_eq!(calls(b"Copy-Itme a b\nWrite-Output c"), ["Copy-Itme", "Write-Output"]);
}

/// P6: where it goes, that it adds no firewall rule, and what it says.
#[test]
fn it_installs_to_its_place_and_adds_no_firewall_rule() {
    let text = std::str::from_utf8(INSTALL).unwrap();
    for wanted in [
        "Join-Path $env:ProgramFiles 'Orchestrator Zero'",
        "'orchestrator-zero-node.exe'",
        "Join-Path $env:LOCALAPPDATA 'orchestrator-zero-node'",
        "sandbox relay --remove-profile",
        "Set-StrictMode -Version Latest",
        "$ErrorActionPreference = 'Stop'",
        "Write-Output $lines[0]",
        "Write-Output $lines[1]",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    assert!(!text.contains("New-NetFirewallRule") && !text.contains("netsh"));
    // A task is made where it was asked for, and nowhere else.
    assert_eq!(text.matches("Add-Task").count(), 2);
    assert!(text.contains("if ($Service) {\n        Add-Task\n    }"));
    // A program's failure is no exception of PowerShell's: each is looked at.
    let called = text.matches("& $program").count();
    assert_eq!(called, text.matches("$LASTEXITCODE -ne 0").count());
}
