"""``completion``: print the script that makes a shell complete commands, options, runs and files.

The script passes the current line to lastbeat, and reads the answer, which has one line for each completion. Its parts
are separated by tabs: ``plain``, a word and its meaning. Instead of ``plain`` it may say ``file`` or ``dir``, which the
shell completes by itself. An error yields an empty answer.
"""

from typing import Final

import click

from lastbeat_cli import exits, options

# Bash also breaks words at : = and @, which an id may contain, and appends a completion after the last of them.
BASH: Final = r"""_lastbeat() {
    local kind word meaning cur
    COMPREPLY=()
    cur=${COMP_WORDS[COMP_CWORD]}
    case $cur in [:=@]) cur= ;; esac
    while IFS=$'\t' read -r kind word meaning; do
        case $kind in
            plain) COMPREPLY+=("$word") ;;
            nospace) COMPREPLY+=("$word"); compopt -o nospace 2>/dev/null ;;
            file|dir)
                compopt -o filenames 2>/dev/null
                while IFS= read -r word; do
                    COMPREPLY+=("$word")
                done < <(compgen -"${kind:0:1}" -- "$cur")
                ;;
        esac
    done < <(_LASTBEAT_COMPLETE=bash _LASTBEAT_LINE=${COMP_LINE:0:COMP_POINT} _LASTBEAT_BREAKS=$COMP_WORDBREAKS \
        "$1" 2>/dev/null </dev/null)
}
complete -F _lastbeat lastbeat
"""

ZSH: Final = r"""#compdef lastbeat
_lastbeat() {
    local kind word meaning
    local -a plain open described
    local files= folders=
    while IFS=$'\t' read -r kind word meaning; do
        case $kind in
            plain)
                if [[ -n $meaning ]]; then
                    described+=("${word//:/\\:}:$meaning")
                else
                    plain+=("$word")
                fi
                ;;
            nospace) open+=("$word") ;;
            file) files=1 ;;
            dir) folders=1 ;;
        esac
    done < <(_LASTBEAT_COMPLETE=zsh _LASTBEAT_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" \
        ${~words[1]} 2>/dev/null </dev/null)
    [[ $PREFIX == -*=* ]] && compset -P '*='
    local found=1
    (( $#plain )) && compadd -a plain && found=0
    (( $#open )) && compadd -S '' -a open && found=0
    (( $#described )) && _describe lastbeat described && found=0
    [[ -n $files ]] && _files && found=0
    [[ -n $folders ]] && _files -/ && found=0
    return found
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _lastbeat "$@"
else
    compdef _lastbeat lastbeat
fi
"""

FISH: Final = r"""function __lastbeat
    set -l line (commandline -cp | string collect)
    set -l program (commandline -opc)[1]
    set -l token (commandline -ct)
    set -l before (string match -r '^-[^=]*=' -- $token)
    set -l value (string replace -r '^-[^=]*=' '' -- $token)
    for answer in (env _LASTBEAT_COMPLETE=fish _LASTBEAT_LINE="$line" $program 2>/dev/null </dev/null)
        set -l parts (string split \t -- $answer)
        switch $parts[1]
            case plain nospace
                printf '%s\t%s\n' "$before$parts[2]" "$parts[3]"
            case file
                for path in (__fish_complete_path "$value")
                    printf '%s\n' "$before$path"
                end
            case dir
                for path in (__fish_complete_directories "$value")
                    printf '%s\n' "$before$path"
                end
        end
    end
end
complete -c lastbeat -f -a '(__lastbeat)'
"""

SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}


EPILOG = """\
To enable it in every new shell:
  bash  echo 'eval "$(lastbeat completion bash)"' >> ~/.bashrc
  zsh   echo 'eval "$(lastbeat completion zsh)"' >> ~/.zshrc     (after compinit)
  fish  lastbeat completion fish > ~/.config/fish/completions/lastbeat.fish

Run ids are looked up where --root, --bucket or the settings point, for at most a second.
"""


@click.command("completion", cls=options.Grouped, epilog=EPILOG)
@click.argument("shell", type=click.Choice(sorted(SCRIPTS)))
def command(*, shell: str) -> int:
    """Print the script that makes SHELL complete lastbeat's commands, options and run ids."""
    print(SCRIPTS[shell], end="")
    return exits.OK
