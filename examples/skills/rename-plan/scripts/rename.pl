#!/usr/bin/perl
use strict;
use warnings;
use File::Copy qw(copy);
use File::Spec;

my ($from, $out) = @ARGV;
die "usage: rename.pl FROM OUT\n" unless defined $out;
opendir(my $dir, $from) or die "$from: $!\n";
my @names = sort grep { -f File::Spec->catfile($from, $_) } readdir $dir;
closedir $dir;
my (%taken, @undo);
for my $old (@names) {
    my $new = lc $old;
    $new =~ s/[^a-z0-9.]+/-/g;
    $new =~ s/^-+|-+(?=\.|$)//g;
    my ($stem, $end) = $new =~ /^(.*?)(\.[^.]*)?$/;
    my $count = $taken{$new}++;
    $new = $stem . "-$count" . ($end // '') if $count;
    copy(File::Spec->catfile($from, $old), File::Spec->catfile($out, $new)) or die "$old: $!\n";
    print "$old -> $new\n";
    push @undo, "mv -- '$new' '$old'\n";
}
open(my $undo, '>', File::Spec->catfile($out, 'undo.sh')) or die "undo.sh: $!\n";
print {$undo} "#!/bin/sh\n", @undo;
close $undo;
chmod 0755, File::Spec->catfile($out, 'undo.sh');
