# Completes rocrepro's commands in bash.
_rocrepro() {
    # Bash splits words at `:` and `=`. Parts without a space between them in the line are one word.
    local rest=${COMP_LINE-} gap word part last=-1 i
    local words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        gap=${rest%%[![:space:]]*}
        rest=${rest#"$gap"}
        rest=${rest#"$part"}
        word=
        ((last < 0)) || word=${words[last]}
        if ((last > 0)) && [[ -z $gap && ($part == [:=]* || $word == *[:=]) ]]; then
            words[last]=$word$part
        else
            last=$((last + 1))
            words[last]=$part
        fi
    done
    local typed=${words[last]} prefix=
    case $typed in
        [\"\']*) typed=${typed:1} ;;
        *) prefix=${typed%"${typed##*[:=]}"} ;;
    esac
    words[last]=$typed
    COMPREPLY=()
    while IFS= read -r word; do
        [[ -z $word ]] || COMPREPLY+=("${word#"$prefix"}")
    done < <(
        _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$last ROCREPRO_COMPLETE=bash \
            "${words[0]/#\~/$HOME}" -- "${words[@]}" 2>/dev/null && echo
    )
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _rocrepro rocrepro
