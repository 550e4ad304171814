# Has a zsh complete a line as if it were typed: zsh -f complete.zsh SCRIPT LINE
# prints what would be offered, each between < and >, among what a terminal is sent.
if [[ ! -o interactive ]]; then
	zmodload zsh/zpty
	zpty typed zsh -f -i
	zpty -w typed "source ${(q)0:A} ${(q)1}"
	zpty -r -m typed answer '*# ready*'
	zpty -w -n typed "$2"$'\t'
	zpty -r -m typed answer '*# done*'
	print -r -- $answer
	exit
fi

PS1= RPS1=
autoload -Uz compinit
compinit -u -d $HOME/.zcompdump # which is slow the first time
source $1

# Called by completion functions for what they offer, but with -O, -A or -D, which only look.
compadd() {
	if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
		local -a offered
		builtin compadd -A offered "$@"
		print -rl -- '<'$^offered'>'
	fi
	builtin compadd "$@"
}
bindkey '^I' complete-word
ended() { print '# done'; exit }
comppostfuncs=(ended)
zle-line-init() { print '# ready' }
zle -N zle-line-init
