# SPDX-License-Identifier: Apache-2.0
# Completion of ration and rationd in fish. The programs know what fits; this asks them.

function __ration_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if test "$line" != :files
            echo $line
        else if string match -q -- '--*=*' $words[-1]
            set -l option (string replace -r '=.*' '=' -- $words[-1])
            set -l typed (string replace -r '^[^=]*=' '' -- $words[-1])
            for file in (__fish_complete_path $typed)
                echo $option$file
            end
        else
            __fish_complete_path $words[-1]
        end
    end
end

for program in ration rationd
    complete -c $program -f -a '(__ration_complete)'
end
