# SPDX-License-Identifier: Apache-2.0
# Completion of ration and rationd in bash. The programs know what fits; this asks them.

_ration() {
    local line=${COMP_LINE:0:COMP_POINT} program=${COMP_WORDS[0]} words=() word i typed before break
    local candidate meaning files= mixed=1

    # The words as the program gets them: bash has split them at = and :.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i == 0)) || [[ $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            ((i == COMP_CWORD)) && word=$line
            words+=("$word")
        else
            ((i == COMP_CWORD)) && word=$line
            words[${#words[@]} - 1]+=$word
        fi
        line=${line#"$word"}
    done
    typed=${words[${#words[@]} - 1]}
    # What comes before the part that bash replaces.
    before=
    for break in = :; do
        [[ $COMP_WORDBREAKS == *$break* && $typed == *$break* ]] || continue
        word=${typed%"$break"*}$break
        ((${#word} > ${#before})) && before=$word
    done

    COMPREPLY=()
    while IFS=$'\t' read -r candidate meaning; do
        if [[ $candidate == :files ]]; then
            files=1
        elif [[ $candidate == "$typed"* ]]; then
            COMPREPLY+=("${candidate#"$before"}")
            [[ $candidate == *[=.] ]] && compopt -o nospace
        fi
    done < <("${program/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null)
    if [[ $files ]]; then
        [[ $typed == --*=* ]] && typed=${typed#*=}
        # Mixed with other words, names of files are quoted here: readline would quote ip= as well.
        ((${#COMPREPLY[@]} == 0)) && compopt -o filenames && mixed=
        while IFS= read -r candidate; do
            if [[ $mixed && $candidate == *[^[:alnum:]_./~:=,@%+-]* ]]; then
                printf -v candidate %q "$candidate"
                [[ $typed == \~* ]] && candidate=${candidate#\\}
            fi
            COMPREPLY+=("$candidate")
        done < <(compgen -f -- "$typed")
    fi
} && complete -F _ration ration rationd
