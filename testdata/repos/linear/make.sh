# One line of changesets: files that come, change, shrink, go and come back.
new
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	lines $((i * 3)) "round $i" >"file$((i % 4))"
	echo "$i" >>log
	mkdir -p "dir/sub$((i % 3))"
	echo "$i" >"dir/sub$((i % 3))/leaf"
	if [ "$i" = 9 ]; then rm file1; fi
	if [ "$i" = 15 ]; then rm -r dir/sub1; fi
	commit "round $i"
done
