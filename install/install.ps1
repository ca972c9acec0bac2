<#
.SYNOPSIS
    Installs Orchestrator Zero's node on Windows, or removes it.
.DESCRIPTION
    Copies the program to C:\Program Files\Orchestrator Zero and prints the first two lines of its check. It starts
    nothing and adds no firewall rule. Program Files needs an elevated PowerShell; the node itself never does.
.PARAMETER Binary
    The program to install; by default orchestrator-zero-node.exe beside this script.
.PARAMETER Service
    Start the node whenever this user logs on, as this user and unelevated, as a scheduled task.
.PARAMETER DataDirectory
    Where the started node keeps its identity; by default %LOCALAPPDATA%\orchestrator-zero-node.
.PARAMETER Psec
    The started node runs its self-test and reports tier 1 with PSEC when it passes.
.PARAMETER Uninstall
    Remove the task, the relay's profile and the program, and list what remains.
#>
#Requires -Version 5.1
[CmdletBinding(DefaultParameterSetName = 'Install')]
param(
    [Parameter(ParameterSetName = 'Install')]
    [string] $Binary = (Join-Path $PSScriptRoot 'orchestrator-zero-node.exe'),

    [Parameter(ParameterSetName = 'Install')]
    [switch] $Service,

    [string] $DataDirectory = (Join-Path $env:LOCALAPPDATA 'orchestrator-zero-node'),

    [Parameter(ParameterSetName = 'Install')]
    [switch] $Psec,

    [Parameter(Mandatory = $true, ParameterSetName = 'Uninstall')]
    [switch] $Uninstall
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$task = 'Orchestrator Zero node'
$rule = 'Orchestrator Zero egress relay'
$folder = Join-Path $env:ProgramFiles 'Orchestrator Zero'
$program = Join-Path $folder 'orchestrator-zero-node.exe'

function Assert-Elevated {
    $identity = [Security.Principal.WindowsIdentity]::GetCurrent()
    $principal = New-Object Security.Principal.WindowsPrincipal $identity
    if (-not $principal.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
        throw "$folder can be changed by an administrator alone: start this script in an elevated PowerShell"
    }
}

function Assert-NotRunning {
    $running = @(Get-Process -Name 'orchestrator-zero-node' -ErrorAction SilentlyContinue)
    if ($running.Count -gt 0) {
        throw "the node is running (process $($running[0].Id)): end it first"
    }
}

# A task and not a Windows service: what is known of PSEC was seen in a user's own session, never in session 0.
function Add-Task {
    if ($DataDirectory -match '"') {
        throw "a quotation mark has no place in a folder's name: $DataDirectory"
    }
    $arguments = 'run --data-dir "{0}"' -f $DataDirectory.TrimEnd('\')
    if ($Psec) {
        $arguments = $arguments + ' --sandbox psec'
    }
    $user = [Security.Principal.WindowsIdentity]::GetCurrent().Name
    $action = New-ScheduledTaskAction -Execute $program -Argument $arguments
    $trigger = New-ScheduledTaskTrigger -AtLogOn -User $user
    $principal = New-ScheduledTaskPrincipal -UserId $user -LogonType Interactive -RunLevel Limited
    $settings = New-ScheduledTaskSettingsSet -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries -ExecutionTimeLimit ([TimeSpan]::Zero) -RestartCount 3 -RestartInterval ([TimeSpan]::FromMinutes(1))
    Register-ScheduledTask -TaskName $task -Action $action -Trigger $trigger -Principal $principal -Settings $settings -Force | Out-Null
    Write-Output "Task '$task': starts the node when $user logs on"
}

function Remove-Task {
    $found = Get-ScheduledTask -TaskName $task -ErrorAction SilentlyContinue
    if ($found) {
        Stop-ScheduledTask -TaskName $task
        Unregister-ScheduledTask -TaskName $task -Confirm:$false
        Write-Output "Task '$task': removed"
    }
}

function Install-Node {
    if (-not (Test-Path -LiteralPath $Binary -PathType Leaf)) {
        throw "there is no program to install at $Binary"
    }
    Assert-Elevated
    Assert-NotRunning
    New-Item -ItemType Directory -Path $folder -Force | Out-Null
    Copy-Item -LiteralPath $Binary -Destination $program -Force
    Write-Output "Installed: $program"
    if ($Service) {
        Add-Task
    }
    $lines = @(& $program sandbox check --data-dir $DataDirectory)
    if ($LASTEXITCODE -ne 0) {
        throw "the installed program's check ended with status $LASTEXITCODE"
    }
    Write-Output $lines[0]
    Write-Output $lines[1]
}

function Uninstall-Node {
    Assert-Elevated
    Remove-Task
    Assert-NotRunning
    if (Test-Path -LiteralPath $program) {
        # The profile is this user's own, so this user's uninstall is what removes it.
        & $program sandbox relay --remove-profile
        if ($LASTEXITCODE -ne 0) {
            throw "the relay's profile was not removed (status $LASTEXITCODE); the program is still there, so that it can be tried again"
        }
        Remove-Item -LiteralPath $program -Force
        Write-Output "Removed: $program"
    }
    if ((Test-Path -LiteralPath $folder) -and -not (Get-ChildItem -LiteralPath $folder -Force)) {
        Remove-Item -LiteralPath $folder
    }
    Write-Remains
}

function Write-Remains {
    $remains = @()
    if (Test-Path -LiteralPath $folder) {
        $remains = $remains + "$folder, with files that are not the node's"
    }
    if (Test-Path -LiteralPath $DataDirectory) {
        $remains = $remains + "$DataDirectory, with the node's identity: delete it when the node will not come back"
    }
    if (Get-NetFirewallRule -DisplayName $rule -ErrorAction SilentlyContinue) {
        $remains = $remains + "the firewall rule that an administrator added: Remove-NetFirewallRule -DisplayName '$rule'"
    }
    $remains = $remains + 'profiles of the relay that other users of this machine made: each runs `sandbox relay --remove-profile` before'
    Write-Output 'What remains:'
    foreach ($line in $remains) {
        Write-Output "  $line"
    }
}

if ($Uninstall) {
    Uninstall-Node
}
else {
    Install-Node
}
