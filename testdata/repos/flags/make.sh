# Executable files and symbolic links, flags that change without the text and
# with it, links that dangle, empty files.
new
: >empty; echo x >x; chmod +x x; echo x >plain; ln -s plain link; commit base
chmod +x plain; commit 'plain becomes executable, text as before'
chmod -x x; echo y >>x; commit 'x loses the bit and changes'
rm link; echo file >link; commit 'link becomes a file'
rm plain; ln -s nowhere plain; commit 'file becomes a dangling link'
: >x; commit 'x becomes empty'; echo full >empty; commit 'empty becomes full'
: >empty; chmod +x empty; commit 'empty again, executable'; mkdir d; : >d/1; : >d/2; commit 'equal empty files'
ln -s ../x d/up; commit 'link up'
