# Long enough that changelog and manifest leave the inline form.
new
hg debugbuilddag -o '+3100'
