<#
.SYNOPSIS
    Runs the node's checks on a real Windows machine and writes down what was seen, as a form for docs/seen.md.
.DESCRIPTION
    Changes nothing but what the checks themselves make and remove. Run it as an ordinary user, in the foreground.
    What it writes has no name of the machine or its user; read it before you hand it on.
.PARAMETER Program
    The node's program.
.PARAMETER Form
    The file to write.
#>
#Requires -Version 5.1
[CmdletBinding()]
param(
    [string] $Program = (Join-Path $env:ProgramFiles 'Orchestrator Zero\orchestrator-zero-node.exe'),
    [string] $Form = (Join-Path (Resolve-Path -LiteralPath '.').Path 'seen-on-windows.md')
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

function Add-Line([string] $line) {
    Add-Content -LiteralPath $Form -Value $line -Encoding UTF8
}

# One call of the node: its time, its status and what it said on standard output.
function Add-Call([string] $title, [string[]] $arguments) {
    Write-Output "$title ..."
    $watch = [Diagnostics.Stopwatch]::StartNew()
    $lines = @(& $Program $arguments)
    $status = $LASTEXITCODE
    $watch.Stop()
    Add-Line ''
    Add-Line "## $title"
    Add-Line ''
    Add-Line ('`{0}`: status {1}, {2:N2} s' -f ($arguments -join ' '), $status, $watch.Elapsed.TotalSeconds)
    Add-Line ''
    Add-Line '```text'
    foreach ($line in $lines) {
        $shown = $line.Replace($env:USERPROFILE, '%USERPROFILE%')
        $shown = $shown.Replace($env:USERNAME, '%USERNAME%')
        Add-Line $shown
    }
    Add-Line '```'
}

if (-not (Test-Path -LiteralPath $Program -PathType Leaf)) {
    throw "there is no node at $Program; -Program says where it is"
}
$windows = Get-ItemProperty -LiteralPath 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion'
$identity = [Security.Principal.WindowsIdentity]::GetCurrent()
$elevated = (New-Object Security.Principal.WindowsPrincipal $identity).IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)
$session = (Get-Process -Id $PID).SessionId

Set-Content -LiteralPath $Form -Value '# Seen on Windows' -Encoding UTF8
Add-Line ''
Add-Line "- Build: $($windows.CurrentBuild).$($windows.UBR), $($windows.DisplayVersion), $($windows.EditionID), $env:PROCESSOR_ARCHITECTURE, $env:NUMBER_OF_PROCESSORS processors"
Add-Line "- Day: $(Get-Date -Format 'yyyy-MM-dd'); session $session; elevated: $elevated"
Add-Line "- Program: SHA-256 $((Get-FileHash -LiteralPath $Program -Algorithm SHA256).Hash)"
Add-Line '- Route (bridge or relay): as the egress check says below; times: each check''s own'
Add-Line '- Virtual machine or hardware, and which: '
Add-Line '- Other security products on it: '

Add-Call 'The probe' @('sandbox', 'check')
Add-Call 'The self-test' @('sandbox', 'check', '--psec', '--json')
Add-Call 'The self-test again, in lines' @('sandbox', 'check', '--psec')

$env:OZ0_SANDBOX_PSEC_PREVIEW = '1'
Add-Call 'A run' @('sandbox', 'run', '--json', '--', 'cmd.exe', '/d', '/c', 'echo inside & exit 42')
foreach ($program in @('python.exe', 'node.exe', 'git.exe', 'powershell.exe')) {
    Add-Call "A run of $program" @('sandbox', 'run', '--', $program, '--version')
}
Write-Output "Written: $Form"
